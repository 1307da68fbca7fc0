use std::fmt;

use dflash_tensor::{AffineScale, Format};
use half::{bf16, f16};

/// How the elements of a tensor are stored in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// A format that a backend packs as it stands.
    Plain(Format),
    /// 32-bit words: packed MLX elements.
    U32,
    /// 64-bit signed integers.
    I64,
    /// One byte per truth value.
    Bool,
    /// Another safetensors type that is only ever skipped; the number is its bytes per element.
    Other(&'static str, usize),
}

impl Element {
    /// The type that safetensors calls `name`.
    pub fn of_safetensors(name: &str) -> Option<Self> {
        Some(match name {
            "F32" => Self::Plain(Format::F32),
            "F16" => Self::Plain(Format::F16),
            "BF16" => Self::Plain(Format::Bf16),
            "U32" => Self::U32,
            "I64" => Self::I64,
            "BOOL" => Self::Bool,
            "U8" => Self::Other("U8", 1),
            "I8" => Self::Other("I8", 1),
            "F8_E4M3" => Self::Other("F8_E4M3", 1),
            "F8_E5M2" => Self::Other("F8_E5M2", 1),
            "I16" => Self::Other("I16", 2),
            "U16" => Self::Other("U16", 2),
            "I32" => Self::Other("I32", 4),
            "F64" => Self::Other("F64", 8),
            "U64" => Self::Other("U64", 8),
            _ => return None,
        })
    }

    /// The type that GGUF numbers `id`.
    pub fn of_gguf(id: u32) -> Option<Self> {
        Some(Self::Plain(match id {
            0 => Format::F32,
            1 => Format::F16,
            2 => Format::Q4_0,
            3 => Format::Q4_1,
            6 => Format::Q5_0,
            7 => Format::Q5_1,
            8 => Format::Q8_0,
            10 => Format::Q2K,
            11 => Format::Q3K,
            12 => Format::Q4K,
            13 => Format::Q5K,
            14 => Format::Q6K,
            27 => return Some(Self::I64),
            30 => Format::Bf16,
            _ => return None,
        }))
    }

    /// Bytes of a tensor, or `None` when the product overflows or the last dimension is not a multiple
    /// of the block.
    pub fn bytes(self, shape: &[usize]) -> Option<usize> {
        let (block, block_bytes) = self.block();
        let cols = shape.last().copied().unwrap_or(1);
        if !cols.is_multiple_of(block) {
            return None;
        }
        let rows = shape.iter().rev().skip(1).try_fold(1usize, |all, &n| all.checked_mul(n))?;
        (cols / block).checked_mul(block_bytes)?.checked_mul(rows)
    }

    fn block(self) -> (usize, usize) {
        match self {
            Self::Plain(format) => (format.block(), format.block_bytes()),
            Self::U32 => (1, 4),
            Self::I64 => (1, 8),
            Self::Bool => (1, 1),
            Self::Other(_, bytes) => (1, bytes),
        }
    }

    /// The same type as scale of an affine matrix.
    pub fn scale(self) -> Option<AffineScale> {
        match self {
            Self::Plain(Format::F32) => Some(AffineScale::F32),
            Self::Plain(Format::F16) => Some(AffineScale::F16),
            Self::Plain(Format::Bf16) => Some(AffineScale::Bf16),
            _ => None,
        }
    }

    /// The values of a float tensor; `None` for other types.
    pub fn floats(self, bytes: &[u8]) -> Option<Vec<f32>> {
        let halves = |of: fn([u8; 2]) -> f32| bytes.chunks_exact(2).map(|b| of([b[0], b[1]])).collect();
        match self.scale()? {
            AffineScale::F32 => {
                let word = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                Some(bytes.chunks_exact(4).map(word).collect())
            }
            AffineScale::F16 => Some(halves(|b| f16::from_le_bytes(b).to_f32())),
            AffineScale::Bf16 => Some(halves(|b| bf16::from_le_bytes(b).to_f32())),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(format) => format.fmt(f),
            Self::U32 => f.write_str("U32"),
            Self::I64 => f.write_str("I64"),
            Self::Bool => f.write_str("BOOL"),
            Self::Other(name, _) => f.write_str(name),
        }
    }
}
