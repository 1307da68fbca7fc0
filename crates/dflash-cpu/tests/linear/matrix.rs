use dflash_tensor::{AffineScale, Format, Part, PartData};
use half::{bf16, f16};

/// All formats.
pub fn formats() -> Vec<Format> {
    let plain = [Format::F32, Format::F16, Format::Bf16, Format::Q8_0, Format::Q4_0, Format::Q4_1];
    let mut formats = plain.to_vec();
    for bits in [4, 8] {
        for (group, scale) in [(32, AffineScale::F32), (64, AffineScale::Bf16), (128, AffineScale::F16)] {
            formats.push(Format::Affine { bits, group, scale });
        }
    }
    formats
}

/// Input widths that `format` allows.
pub fn widths(format: Format) -> impl Iterator<Item = usize> {
    [32, 64, 576, 1536, 4096].into_iter().filter(move |cols| cols % format.block() == 0)
}

/// A small deterministic source of numbers.
pub struct Noise(pub u64);

impl Noise {
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// In -1..1.
    pub fn number(&mut self) -> f32 {
        self.bits() as f32 / (1_u64 << 30) as f32 - 1.0
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}

/// A matrix as it stands in a file, and what it means.
pub struct Matrix {
    pub format: Format,
    pub rows: usize,
    pub cols: usize,
    pub bias: Option<Vec<f32>>,
    elements: Vec<u8>,
    scales: Vec<u8>,
    biases: Vec<u8>,
    /// `[rows, cols]`.
    pub values: Vec<f64>,
}

impl Matrix {
    pub fn new(format: Format, rows: usize, cols: usize, seed: u64) -> Self {
        let (elements, scales, biases, values) = Default::default();
        let mut matrix = Self { format, rows, cols, bias: None, elements, scales, biases, values };
        let mut noise = Noise(seed);
        for _ in 0..rows * cols / format.block() {
            matrix.push_block(&mut noise);
        }
        matrix
    }

    pub fn with_bias(mut self) -> Self {
        self.bias = Some(Noise(99).numbers(self.rows));
        self
    }

    pub fn part(&self) -> Part<'_> {
        let mut part = Part::plain(self.format, self.rows, self.cols, &self.elements);
        if matches!(self.format, Format::Affine { .. }) {
            part.data =
                PartData::Affine { elements: &self.elements, scales: &self.scales, biases: &self.biases };
        }
        part.bias = self.bias.as_deref();
        part
    }

    fn push_block(&mut self, noise: &mut Noise) {
        match self.format {
            Format::F32 => {
                let value = noise.number();
                self.elements.extend(value.to_le_bytes());
                self.values.push(value.into());
            }
            Format::F16 => {
                let value = f16::from_f32(noise.number());
                self.elements.extend(value.to_le_bytes());
                self.values.push(value.into());
            }
            Format::Bf16 => {
                let value = bf16::from_f32(noise.number());
                self.elements.extend(value.to_le_bytes());
                self.values.push(value.into());
            }
            Format::Q8_0 => {
                let d = push_scale(&mut self.elements, AffineScale::F16, noise.number() / 100.0);
                let q: [u8; 32] = std::array::from_fn(|_| noise.bits() as u8);
                self.elements.extend(q);
                self.values.extend(q.map(|q| d * f64::from(q as i8)));
            }
            Format::Q4_0 => {
                let d = push_scale(&mut self.elements, AffineScale::F16, noise.number() / 8.0);
                self.push_nibbles(noise, |q| d * (q - 8.0));
            }
            Format::Q4_1 => {
                let d = push_scale(&mut self.elements, AffineScale::F16, noise.number() / 8.0);
                let m = push_scale(&mut self.elements, AffineScale::F16, noise.number());
                self.push_nibbles(noise, |q| d * q + m);
            }
            Format::Affine { bits, group, scale } => {
                let largest = f32::from(((1_u16 << bits) - 1) as u8);
                let d = push_scale(&mut self.scales, scale, noise.number() / largest);
                let m = push_scale(&mut self.biases, scale, noise.number());
                let bytes = (0..group as usize * bits as usize / 8).map(|_| noise.bits() as u8);
                for byte in bytes.collect::<Vec<u8>>() {
                    self.elements.push(byte);
                    let q = if bits == 8 { vec![byte] } else { vec![byte & 15, byte >> 4] };
                    self.values.extend(q.into_iter().map(|q| d * f64::from(q) + m));
                }
            }
        }
    }

    /// Low halves are the first sixteen elements.
    fn push_nibbles(&mut self, noise: &mut Noise, value: impl Fn(f64) -> f64) {
        let bytes: [u8; 16] = std::array::from_fn(|_| noise.bits() as u8);
        self.elements.extend(bytes);
        self.values.extend(bytes.map(|byte| value(f64::from(byte & 15))));
        self.values.extend(bytes.map(|byte| value(f64::from(byte >> 4))));
    }
}

/// Appends a scale, rounded to its type, and returns it.
fn push_scale(bytes: &mut Vec<u8>, scale: AffineScale, value: f32) -> f64 {
    match scale {
        AffineScale::F32 => {
            bytes.extend(value.to_le_bytes());
            value.into()
        }
        AffineScale::F16 => {
            bytes.extend(f16::from_f32(value).to_le_bytes());
            f16::from_f32(value).into()
        }
        AffineScale::Bf16 => {
            bytes.extend(bf16::from_f32(value).to_le_bytes());
            bf16::from_f32(value).into()
        }
    }
}
