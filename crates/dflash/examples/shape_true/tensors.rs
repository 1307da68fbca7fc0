//! What a model consists of, before a layout gives it names and bytes.

use serde_json::Value;

/// A model in either layout.
pub struct Model {
    /// `config.json`, without quantisation.
    pub config: Value,
    /// Architecture name of GGUF, and its metadata without the prefix; `None` where only MLX is written.
    pub gguf: Option<(&'static str, Vec<(&'static str, Meta)>)>,
    /// All tensors.
    pub parts: Vec<Part>,
}

/// A metadata value of GGUF.
pub enum Meta {
    /// An unsigned number.
    Size(usize),
    /// A float.
    Float(f32),
}

/// One tensor, or one quantised module.
pub struct Part {
    /// Name in MLX files; a module without `.weight` for matrices.
    pub mlx: String,
    /// The same in GGUF files.
    pub gguf: String,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a tensor is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A matrix or a stack of them, quantised to so many bits in MLX files.
    Matrix(u8),
    /// Filters of a convolution `[channels, taps]`.
    Filter,
    /// Values in a range; f32 in GGUF files, bfloat16 in MLX files.
    Values(f32, f32),
    /// Values that only MLX files hold, as f32, while GGUF files hold them in the second range.
    Rates((f32, f32), (f32, f32)),
}

/// A matrix of 4 bits.
pub fn matrix(mlx: impl Into<String>, gguf: impl Into<String>, shape: &[usize]) -> Part {
    Part { mlx: mlx.into(), gguf: gguf.into(), shape: shape.into(), kind: Kind::Matrix(4) }
}

/// The gain of a norm.
pub fn gain(mlx: impl Into<String>, gguf: impl Into<String>, len: usize) -> Part {
    let (mlx, gguf) = (mlx.into() + ".weight", gguf.into() + ".weight");
    Part { mlx, gguf, shape: vec![len], kind: Kind::Values(0.5, 1.0) }
}
