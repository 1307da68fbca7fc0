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
/// Block formats are those of GGUF (`d`, `m` are IEEE halves), [`Format::Affine`] is that of MLX. The blocks of
/// 256 elements divide into eight of 32 or sixteen of 16 with integer scales `s` and minimums `n` of their own.
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
    /// 32 elements in 22 bytes: `d`, 4 bytes with the fifth bits (bit `i` of element `i`), nibbles as
    /// [`Format::Q4_0`]; `w = d*(q-16)`.
    Q5_0,
    /// 32 elements in 24 bytes: `d`, `m`, fifth bits and nibbles as [`Format::Q5_0`]; `w = d*q + m`.
    Q5_1,
    /// 256 elements in 84 bytes: 16 bytes `s | n << 4` for 16 elements each, 64 bytes of four elements, `d`, `m`;
    /// `w = d*s*q - m*n`.
    Q2K,
    /// 256 elements in 110 bytes: 32 bytes of third bits, 64 bytes of four elements, 12 bytes of 16 scales of six
    /// bits, `d`; `w = d*(s-32)*(q-4)`.
    Q3K,
    /// 256 elements in 144 bytes: `d`, `m`, 12 bytes of 8 scales and 8 minimums of six bits, 128 bytes of nibbles;
    /// `w = d*s*q - m*n`.
    Q4K,
    /// 256 elements in 176 bytes: `d`, `m`, scales and minimums as [`Format::Q4K`], 32 bytes of fifth bits, 128
    /// bytes of nibbles; `w = d*s*q - m*n`.
    Q5K,
    /// 256 elements in 210 bytes: 128 bytes of nibbles, 64 bytes of the two upper bits, 16 scales of signed bytes,
    /// `d`; `w = d*s*(q-32)`.
    Q6K,
    /// MLX affine: a little-endian bit stream of unsigned `bits`-wide elements, one scale and one bias per
    /// `group` consecutive inputs; `w = scale*q + bias`.
    Affine {
        /// Bits of an element: 2, 3, 4, 5, 6 or 8.
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
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K => 256,
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
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
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
            Self::Q5_0 => f.write_str("Q5_0"),
            Self::Q5_1 => f.write_str("Q5_1"),
            Self::Q2K => f.write_str("Q2_K"),
            Self::Q3K => f.write_str("Q3_K"),
            Self::Q4K => f.write_str("Q4_K"),
            Self::Q5K => f.write_str("Q5_K"),
            Self::Q6K => f.write_str("Q6_K"),
            Self::Affine { bits, group, .. } => write!(f, "MLX {bits}-bit group {group}"),
        }
    }
}
