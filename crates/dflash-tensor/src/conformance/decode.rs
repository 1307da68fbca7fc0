//! Random matrices of every format and their decoding, straight from the description of the formats.

use half::{bf16, f16};

use super::data::Random;
use crate::{AffineScale, Format, Part, PartData};

const fn affine(bits: u8, group: u16, scale: AffineScale) -> Format {
    Format::Affine { bits, group, scale }
}

/// Every format, with the group sizes and scale types of MLX.
pub const FORMATS: [Format; 14] = [
    Format::F32,
    Format::F16,
    Format::Bf16,
    Format::Q8_0,
    Format::Q4_0,
    Format::Q4_1,
    affine(4, 32, AffineScale::F16),
    affine(4, 64, AffineScale::F16),
    affine(4, 64, AffineScale::Bf16),
    affine(4, 128, AffineScale::F32),
    affine(8, 32, AffineScale::Bf16),
    affine(8, 64, AffineScale::F16),
    affine(8, 64, AffineScale::F32),
    affine(8, 128, AffineScale::Bf16),
];

/// The raw bytes of a matrix as a file would hold them.
#[derive(Clone)]
pub(super) struct Matrix {
    pub(super) format: Format,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) elements: Vec<u8>,
    pub(super) scales: Vec<u8>,
    pub(super) biases: Vec<u8>,
    pub(super) bias: Option<Vec<f32>>,
    pub(super) order: Option<Vec<u32>>,
}

impl Matrix {
    /// Random contents of the size of real weights.
    pub(super) fn random(format: Format, rows: usize, cols: usize, random: &mut Random) -> Self {
        let mut elements = Vec::new();
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..rows * cols / format.block() {
            push_block(format, random, &mut elements);
            if let Format::Affine { bits, scale, .. } = format {
                let size = 0.2 / f32::from(1_u16 << (bits - 1));
                push_scale(scale, size * (1.0 + random.uniform()), &mut scales);
                push_scale(scale, -0.1 + 0.1 * random.uniform(), &mut biases);
            }
        }
        Self { format, rows, cols, elements, scales, biases, bias: None, order: None }
    }

    /// A matrix of single floats.
    pub(super) fn of(rows: usize, cols: usize, values: &[f32]) -> Self {
        let elements = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (scales, biases) = (Vec::new(), Vec::new());
        Self { format: Format::F32, rows, cols, elements, scales, biases, bias: None, order: None }
    }

    /// With a random bias and the rows in random order.
    pub(super) fn decorated(mut self, random: &mut Random) -> Self {
        self.bias = Some(random.floats(self.rows));
        self.order = Some(random.order(self.rows));
        self
    }

    pub(super) fn part(&self) -> Part<'_> {
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
    pub(super) fn row(&self, row: usize) -> Vec<f64> {
        let row = self.order.as_ref().map_or(row, |order| order[row] as usize);
        (0..self.cols).map(|col| self.element(row, col)).collect()
    }

    /// What is added to output `row`.
    pub(super) fn bias(&self, row: usize) -> f64 {
        self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]))
    }

    fn element(&self, row: usize, col: usize) -> f64 {
        let index = row * self.cols + col;
        let (block, inside) = (index / self.format.block(), index % self.format.block());
        let bytes = &self.elements[block * self.format.block_bytes()..][..self.format.block_bytes()];
        let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64();
        let nibble = |at: usize| f64::from(bytes[at + inside % 16] >> (inside / 16 * 4) & 15);
        match self.format {
            Format::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
            Format::F16 => half(0),
            Format::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            Format::Q8_0 => half(0) * f64::from(bytes[2 + inside].cast_signed()),
            Format::Q4_0 => half(0) * (nibble(2) - 8.0),
            Format::Q4_1 => half(0) * nibble(4) + half(2),
            Format::Affine { bits: 4, scale, .. } => {
                self.affine(scale, block, f64::from(bytes[inside / 2] >> (inside % 2 * 4) & 15))
            }
            Format::Affine { scale, .. } => self.affine(scale, block, f64::from(bytes[inside])),
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

fn push_block(format: Format, random: &mut Random, to: &mut Vec<u8>) {
    let value = 0.3 * random.uniform();
    let half = |value: f32| f16::from_f32(value).to_le_bytes();
    match format {
        Format::F32 => to.extend(value.to_le_bytes()),
        Format::F16 => to.extend(half(value)),
        Format::Bf16 => to.extend(bf16::from_f32(value).to_le_bytes()),
        Format::Q8_0 => to.extend(half(value / 128.0)),
        Format::Q4_0 => to.extend(half(value / 8.0)),
        Format::Q4_1 => {
            to.extend(half(value / 8.0));
            to.extend(half(0.3 * random.uniform()));
        }
        Format::Affine { .. } => {}
    }
    let packed = match format {
        Format::F32 | Format::F16 | Format::Bf16 => 0,
        Format::Q8_0 => 32,
        Format::Q4_0 | Format::Q4_1 => 16,
        Format::Affine { .. } => format.block_bytes(),
    };
    to.extend((0..packed).map(|_| random.next() as u8));
}

fn push_scale(scale: AffineScale, value: f32, to: &mut Vec<u8>) {
    match scale {
        AffineScale::F32 => to.extend(value.to_le_bytes()),
        AffineScale::F16 => to.extend(f16::from_f32(value).to_le_bytes()),
        AffineScale::Bf16 => to.extend(bf16::from_f32(value).to_le_bytes()),
    }
}
