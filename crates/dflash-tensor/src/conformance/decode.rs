//! Random matrices of every format and their decoding, straight from the description of the formats.

use std::sync::OnceLock;

use half::{bf16, f16};

use super::blocks;
use super::data::Random;
use crate::{AffineScale, Format, Part, PartData};

const fn affine(bits: u8, group: u16, scale: AffineScale) -> Format {
    Format::Affine { bits, group, scale }
}

/// Every format, with all widths, group sizes and scale types of MLX.
pub const FORMATS: [Format; 33] = [
    Format::F32,
    Format::F16,
    Format::Bf16,
    Format::Q8_0,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q2K,
    Format::Q3K,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
    affine(2, 32, AffineScale::F32),
    affine(2, 64, AffineScale::Bf16),
    affine(2, 128, AffineScale::F16),
    affine(3, 32, AffineScale::F16),
    affine(3, 64, AffineScale::F32),
    affine(3, 128, AffineScale::Bf16),
    affine(4, 32, AffineScale::F16),
    affine(4, 64, AffineScale::F16),
    affine(4, 64, AffineScale::Bf16),
    affine(4, 128, AffineScale::F32),
    affine(5, 32, AffineScale::Bf16),
    affine(5, 64, AffineScale::F16),
    affine(5, 128, AffineScale::F32),
    affine(6, 32, AffineScale::F32),
    affine(6, 64, AffineScale::Bf16),
    affine(6, 128, AffineScale::F16),
    affine(8, 32, AffineScale::Bf16),
    affine(8, 64, AffineScale::F16),
    affine(8, 64, AffineScale::F32),
    affine(8, 128, AffineScale::Bf16),
];

/// `cols` rounded up to whole blocks.
pub(super) fn whole(format: Format, cols: usize) -> usize {
    cols.next_multiple_of(format.block())
}

/// The raw bytes of a matrix as a file would hold them.
#[derive(Clone)]
pub struct Matrix {
    /// Storage format.
    pub format: Format,
    /// Rows in the file.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    elements: Vec<u8>,
    scales: Vec<u8>,
    biases: Vec<u8>,
    /// [`Part::bias`].
    pub bias: Option<Vec<f32>>,
    /// [`Part::order`].
    pub order: Option<Vec<u32>>,
    /// `[rows, cols]` in the order of the file, decoded once.
    values: OnceLock<Vec<f64>>,
}

impl Matrix {
    /// A matrix of random contents of the size of real weights, the same for the same seed.
    pub fn new(format: Format, rows: usize, cols: usize, seed: u64) -> Self {
        Self::random(format, rows, cols, &mut Random(seed))
    }

    /// Random contents of the size of real weights.
    pub(super) fn random(format: Format, rows: usize, cols: usize, random: &mut Random) -> Self {
        let mut elements = Vec::new();
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..rows * cols / format.block() {
            blocks::push(format, random, &mut elements);
            if let Format::Affine { bits, scale, .. } = format {
                let size = 0.2 / f32::from(1_u16 << (bits - 1));
                push_scale(scale, size * (1.0 + random.uniform()), &mut scales);
                push_scale(scale, -0.1 + 0.1 * random.uniform(), &mut biases);
            }
        }
        Self {
            format,
            rows,
            cols,
            elements,
            scales,
            biases,
            bias: None,
            order: None,
            values: OnceLock::new(),
        }
    }

    /// A matrix of single floats.
    pub(super) fn of(rows: usize, cols: usize, values: &[f32]) -> Self {
        let elements = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (scales, biases) = (Vec::new(), Vec::new());
        Self {
            format: Format::F32,
            rows,
            cols,
            elements,
            scales,
            biases,
            bias: None,
            order: None,
            values: OnceLock::new(),
        }
    }

    /// With a random bias and the rows in random order.
    pub(super) fn decorated(mut self, random: &mut Random) -> Self {
        self.bias = Some(random.floats(self.rows));
        self.order = Some(random.order(self.rows));
        self
    }

    /// With a random bias and some of the rows, one of them twice.
    pub(super) fn gathered(mut self, random: &mut Random) -> Self {
        let mut order = random.order(self.rows);
        order.truncate(self.rows.div_ceil(3));
        order.push(order[0]);
        self.bias = Some(random.floats(order.len()));
        self.order = Some(order);
        self
    }

    /// Bytes of the matrix in a file.
    pub fn file_bytes(&self) -> usize {
        self.elements.len() + self.scales.len() + self.biases.len()
    }

    /// Output features.
    pub fn outputs(&self) -> usize {
        self.part().outputs()
    }

    /// To be packed.
    pub fn part(&self) -> Part<'_> {
        let data = match self.format {
            Format::Affine { .. } => {
                PartData::Affine { elements: &self.elements, scales: &self.scales, biases: &self.biases }
            }
            _ => PartData::Plain(&self.elements),
        };
        Part {
            format: self.format,
            rows: self.rows,
            cols: self.cols,
            data,
            bias: self.bias.as_deref(),
            order: self.order.as_deref(),
        }
    }

    /// The elements of output row `row`.
    pub fn row(&self, row: usize) -> &[f64] {
        let row = self.order.as_ref().map_or(row, |order| order[row] as usize);
        let elements = || (0..self.rows * self.cols).map(|index| self.element(index)).collect();
        &self.values.get_or_init(elements)[row * self.cols..][..self.cols]
    }

    /// What is added to output `row`.
    pub(super) fn bias(&self, row: usize) -> f64 {
        self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]))
    }

    fn element(&self, index: usize) -> f64 {
        let (block, inside) = (index / self.format.block(), index % self.format.block());
        let bytes = &self.elements[block * self.format.block_bytes()..][..self.format.block_bytes()];
        let value = blocks::element(self.format, bytes, inside);
        match self.format {
            Format::Affine { scale, .. } => self.affine(scale, block, value),
            _ => value,
        }
    }

    fn affine(&self, scale: AffineScale, group: usize, q: f64) -> f64 {
        let number = |bytes: &[u8]| {
            let bytes = &bytes[group * scale.bytes()..][..scale.bytes()];
            match scale {
                AffineScale::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
                AffineScale::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
                AffineScale::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            }
        };
        number(&self.scales) * q + number(&self.biases)
    }
}

/// Whether activations may be rounded to eight bits before they meet this format.
pub(super) fn is_quantised(format: Format) -> bool {
    !matches!(format, Format::F32 | Format::F16 | Format::Bf16)
}

fn push_scale(scale: AffineScale, value: f32, to: &mut Vec<u8>) {
    match scale {
        AffineScale::F32 => to.extend(value.to_le_bytes()),
        AffineScale::F16 => to.extend(f16::from_f32(value).to_le_bytes()),
        AffineScale::Bf16 => to.extend(bf16::from_f32(value).to_le_bytes()),
    }
}
