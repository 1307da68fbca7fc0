use dflash_tensor::{AffineScale, Format};

/// Inputs of a quantised block: what one activation scale covers.
pub(crate) const BLOCK: usize = 32;

/// Bytes of the largest unit: 256 elements of six bits with sixteen scales of a byte and an f16.
const MAX_UNIT: usize = 210;

/// Room for the units of one row that are moved together.
pub(crate) const MAX_CELL: usize = 1024;

/// Blocks of a super-block.
const SUPER_BLOCKS: usize = 8;

/// How a packed matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Quantised, floats as scales.
    Flat(Flat),
    /// Quantised, integers as scales of its blocks.
    Super(Super),
}

/// Elements `scale * (q + zero)`, or `scale * (q + zero) + min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flat {
    /// Bits of an element; eight are signed.
    pub(crate) bits: u8,
    /// Type of scale and minimum.
    pub(crate) scale: AffineScale,
    /// Whether there is a minimum.
    pub(crate) min: bool,
    /// Blocks that share scale and minimum.
    pub(crate) blocks: usize,
}

/// Units of 256 elements with f16 factors `d`, or `d` and `m`, and two bytes at the head of each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Super {
    /// `d * s * q - m * n`; the bytes are `s | n << 4` of 16 elements each.
    Q2K,
    /// `d * s * (q - 4)`; the bytes are the signed `s` of 16 elements each.
    Q3K,
    /// `d * s * q - m * n`; the bytes are `s` and `n`, four bits an element.
    Q4K,
    /// The same with five bits an element.
    Q5K,
    /// `d * s * (q - 32)`; the bytes are the signed `s` of 16 elements each.
    Q6K,
}

impl Flat {
    const fn gguf(bits: u8, min: bool) -> Self {
        Self { bits, scale: AffineScale::F16, min, blocks: 1 }
    }

    /// Added to a stored element.
    pub(crate) const fn zero(self) -> i32 {
        match (self.min, self.bits) {
            (false, 4) => -8,
            (false, 5) => -16,
            (true, 8) => 128,
            _ => 0,
        }
    }
}

impl Super {
    /// Bits of an element.
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::Q2K => 2,
            Self::Q3K => 3,
            Self::Q4K => 4,
            Self::Q5K => 5,
            Self::Q6K => 6,
        }
    }

    /// Added to a stored element.
    pub(crate) const fn zero(self) -> i32 {
        match self {
            Self::Q3K => -4,
            Self::Q6K => -32,
            _ => 0,
        }
    }

    /// Whether there are minimums.
    pub(crate) const fn has_min(self) -> bool {
        matches!(self, Self::Q2K | Self::Q4K | Self::Q5K)
    }

    /// Scales and minimums of both halves of a block, from the two bytes at its head.
    pub(crate) fn factors(self, head: [u8; 2]) -> ([i32; 2], [i32; 2]) {
        match self {
            Self::Q2K => (head.map(|byte| i32::from(byte & 15)), head.map(|byte| i32::from(byte >> 4))),
            Self::Q3K | Self::Q6K => (head.map(|byte| i32::from(byte.cast_signed())), [0; 2]),
            Self::Q4K | Self::Q5K => ([i32::from(head[0]); 2], [i32::from(head[1]); 2]),
        }
    }
}

impl Kind {
    /// How `format` is packed.
    pub(crate) fn of(format: Format) -> Option<Self> {
        Some(match format {
            Format::F32 => Self::F32,
            Format::F16 => Self::F16,
            Format::Bf16 => Self::Bf16,
            Format::Q8_0 => Self::Flat(Flat::gguf(8, false)),
            Format::Q4_0 => Self::Flat(Flat::gguf(4, false)),
            Format::Q4_1 => Self::Flat(Flat::gguf(4, true)),
            Format::Q5_0 => Self::Flat(Flat::gguf(5, false)),
            Format::Q5_1 => Self::Flat(Flat::gguf(5, true)),
            Format::Q2K => Self::Super(Super::Q2K),
            Format::Q3K => Self::Super(Super::Q3K),
            Format::Q4K => Self::Super(Super::Q4K),
            Format::Q5K => Self::Super(Super::Q5K),
            Format::Q6K => Self::Super(Super::Q6K),
            Format::Affine { bits: bits @ (2..=6 | 8), group: group @ (32 | 64 | 128), scale } => {
                Self::Flat(Flat { bits, scale, min: true, blocks: group as usize / BLOCK })
            }
            Format::Affine { .. } => return None,
        })
    }

    /// Whether the product is taken with quantised activations.
    pub(crate) fn is_quantized(self) -> bool {
        matches!(self, Self::Flat(_) | Self::Super(_))
    }

    /// Whether it takes activations of eight bits.
    pub(crate) fn takes_bytes(self) -> bool {
        self.is_quantized() && self.bits() < 8
    }

    /// Whether it takes activations of sixteen bits.
    pub(crate) fn takes_words(self) -> bool {
        self.is_quantized() && self.bits() == 8
    }

    /// Bits of an element.
    pub(crate) fn bits(self) -> u8 {
        match self {
            Self::F32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Flat(flat) => flat.bits,
            Self::Super(kind) => kind.bits(),
        }
    }

    /// Added to a stored element.
    pub(crate) fn zero(self) -> i32 {
        match self {
            Self::Flat(flat) => flat.zero(),
            Self::Super(kind) => kind.zero(),
            _ => 0,
        }
    }

    /// Blocks of a unit.
    pub(crate) fn unit_blocks(self) -> usize {
        match self {
            Self::Flat(flat) => flat.blocks,
            Self::Super(_) => SUPER_BLOCKS,
            _ => 1,
        }
    }

    /// Inputs of a unit, the piece of a row with its own scale.
    pub(crate) fn unit_cols(self) -> usize {
        if self.is_quantized() { self.unit_blocks() * BLOCK } else { 1 }
    }

    /// Type of scale and minimum at the head of a unit.
    pub(crate) fn scale(self) -> AffineScale {
        match self {
            Self::Flat(flat) => flat.scale,
            _ => AffineScale::F16,
        }
    }

    /// Bytes of one scale, none for floats.
    pub(crate) fn scale_bytes(self) -> usize {
        if self.is_quantized() { self.scale().bytes() } else { 0 }
    }

    /// Whether a unit has a minimum.
    pub(crate) fn has_min(self) -> bool {
        match self {
            Self::Flat(flat) => flat.min,
            Self::Super(kind) => kind.has_min(),
            _ => false,
        }
    }

    /// Bytes of a unit of one row: scale, minimum, blocks.
    pub(crate) fn unit_bytes(self) -> usize {
        self.head_bytes() + self.unit_blocks() * self.block_bytes()
    }

    /// Bytes of scale and minimum of one row.
    pub(crate) fn head_bytes(self) -> usize {
        self.scale_bytes() * (1 + usize::from(self.has_min()))
    }

    /// Bytes of a block of one row, or of a float: its head, then its elements.
    pub(crate) fn block_bytes(self) -> usize {
        let elements = if self.is_quantized() { BLOCK } else { 1 };
        self.block_head_bytes() + elements * usize::from(self.bits()) / 8
    }

    /// Bytes of the integer scales and minimums at the head of a block.
    pub(crate) fn block_head_bytes(self) -> usize {
        if matches!(self, Self::Super(_)) { 2 } else { 0 }
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
