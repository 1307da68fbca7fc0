use dflash_tensor::{AffineScale, Format};

/// Inputs of a quantised block: what one activation scale covers.
pub(crate) const BLOCK: usize = 32;

/// Bytes of the largest unit: 128 elements of 8 bits with an f32 scale and minimum.
const MAX_UNIT: usize = 136;

/// Room for the units of one row that are moved together.
pub(crate) const MAX_CELL: usize = 1024;

/// How a packed matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// `scale * (q - 8)`, f16 scale per block.
    Nibble,
    /// `scale * q`, signed, f16 scale per block.
    Byte,
    /// `scale * q + min` over `blocks` blocks.
    AffineNibble {
        /// Type of scale and minimum.
        scale: AffineScale,
        /// Blocks that share them.
        blocks: usize,
    },
    /// `scale * q + min` over `blocks` blocks, stored as the signed `q - 128`.
    AffineByte {
        /// Type of scale and minimum.
        scale: AffineScale,
        /// Blocks that share them.
        blocks: usize,
    },
}

impl Kind {
    /// How `format` is packed.
    pub(crate) fn of(format: Format) -> Option<Self> {
        Some(match format {
            Format::F32 => Self::F32,
            Format::F16 => Self::F16,
            Format::Bf16 => Self::Bf16,
            Format::Q8_0 => Self::Byte,
            Format::Q4_0 => Self::Nibble,
            Format::Q4_1 => Self::AffineNibble { scale: AffineScale::F16, blocks: 1 },
            Format::Affine { bits, group, scale } => {
                let blocks = group as usize / BLOCK;
                match (bits, group) {
                    (4, 32 | 64 | 128) => Self::AffineNibble { scale, blocks },
                    (8, 32 | 64 | 128) => Self::AffineByte { scale, blocks },
                    _ => return None,
                }
            }
        })
    }

    /// Whether the product is taken with quantised activations.
    pub(crate) fn is_quantized(self) -> bool {
        !matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Whether an element takes four bits.
    pub(crate) fn is_nibble(self) -> bool {
        matches!(self, Self::Nibble | Self::AffineNibble { .. })
    }

    /// Added to a stored element.
    pub(crate) fn zero(self) -> i32 {
        match self {
            Self::Nibble => -8,
            Self::AffineByte { .. } => 128,
            _ => 0,
        }
    }

    /// Blocks that share a scale.
    pub(crate) fn unit_blocks(self) -> usize {
        match self {
            Self::AffineNibble { blocks, .. } | Self::AffineByte { blocks, .. } => blocks,
            _ => 1,
        }
    }

    /// Inputs of a unit, the piece of a row with its own scale.
    pub(crate) fn unit_cols(self) -> usize {
        if self.is_quantized() { self.unit_blocks() * BLOCK } else { 1 }
    }

    /// Bytes of the elements of a unit.
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Nibble | Self::AffineNibble { .. } => self.unit_cols() / 2,
            Self::Byte | Self::AffineByte { .. } => self.unit_cols(),
        }
    }

    /// Type of scale and minimum of quantised elements.
    pub(crate) fn scale(self) -> AffineScale {
        match self {
            Self::AffineNibble { scale, .. } | Self::AffineByte { scale, .. } => scale,
            _ => AffineScale::F16,
        }
    }

    /// Bytes of one scale, none for floats.
    pub(crate) fn scale_bytes(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 0,
            _ => self.scale().bytes(),
        }
    }

    /// Whether a unit has a minimum.
    pub(crate) fn has_min(self) -> bool {
        matches!(self, Self::AffineNibble { .. } | Self::AffineByte { .. })
    }

    /// Bytes of a unit of one row: scale, minimum, elements.
    pub(crate) fn unit_bytes(self) -> usize {
        self.head_bytes() + self.element_bytes()
    }

    /// Bytes of scale and minimum of one row.
    pub(crate) fn head_bytes(self) -> usize {
        self.scale_bytes() * (1 + usize::from(self.has_min()))
    }

    /// Units of one row that are moved together: many floats, one quantised unit.
    pub(crate) fn cell_units(self) -> usize {
        if self.is_quantized() { 1 } else { MAX_CELL / self.unit_bytes() }
    }

    /// Bytes of a row of `cols` inputs.
    pub(crate) fn row_bytes(self, cols: usize) -> usize {
        cols / self.unit_cols() * self.unit_bytes()
    }

    /// Bytes of elements that stay together in a lane.
    pub(crate) fn run_bytes(self) -> usize {
        if matches!(self, Self::F16 | Self::Bf16) { 2 } else { 4 }
    }
}

const _: () = assert!(MAX_UNIT <= MAX_CELL);
