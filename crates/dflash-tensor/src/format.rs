use std::fmt;

/// Data type of the scales and biases of an MLX affine matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AffineScale {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
}

impl AffineScale {
    /// Bytes of one scale.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// How the elements of a weight matrix are stored in its file, row by row, little endian.
///
/// Block formats are those of GGUF (`d`, `m` are IEEE halves), [`Format::Affine`] is that of MLX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// 32 elements in 34 bytes: `d`, 32 x i8; `w = d*q`.
    Q8_0,
    /// 32 elements in 18 bytes: `d`, 16 bytes of nibbles (low: 0..15, high: 16..31); `w = d*(q-8)`.
    Q4_0,
    /// 32 elements in 20 bytes: `d`, `m`, nibbles as [`Format::Q4_0`]; `w = d*q + m`.
    Q4_1,
    /// MLX affine: a little-endian bit stream of unsigned `bits`-wide elements, one scale and one bias per
    /// `group` consecutive inputs; `w = scale*q + bias`.
    Affine {
        /// Bits of an element: 4 or 8.
        bits: u8,
        /// Inputs that share a scale and a bias: 32, 64 or 128.
        group: u16,
        /// Data type of scales and biases.
        scale: AffineScale,
    },
}

impl Format {
    /// Elements of the smallest unit a row divides into.
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 => 32,
            Self::Affine { group, .. } => group as usize,
        }
    }

    /// Bytes of one block; for [`Format::Affine`] of the packed elements alone, without scale and bias.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Affine { bits, group, .. } => group as usize * bits as usize / 8,
        }
    }

    /// Bytes of a row of `cols` elements (a multiple of [`Format::block`]).
    pub fn row_bytes(self, cols: usize) -> usize {
        cols / self.block() * self.block_bytes()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("F32"),
            Self::F16 => f.write_str("F16"),
            Self::Bf16 => f.write_str("BF16"),
            Self::Q8_0 => f.write_str("Q8_0"),
            Self::Q4_0 => f.write_str("Q4_0"),
            Self::Q4_1 => f.write_str("Q4_1"),
            Self::Affine { bits, group, .. } => write!(f, "MLX {bits}-bit group {group}"),
        }
    }
}
