//! Fixed products and fixed attention at the start: kernels that give other bits than the oracle are not used.

mod attention;

use dflash_tensor::{AffineScale, Backend, Format, Part, PartData, Pre, Tail, Weight};

use crate::{CpuBackend, Isa};

const FORMATS: [Format; 19] = [
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
    affine(2, 32, AffineScale::F16),
    affine(3, 64, AffineScale::Bf16),
    affine(4, 128, AffineScale::F32),
    affine(5, 64, AffineScale::F16),
    affine(6, 32, AffineScale::Bf16),
    affine(8, 64, AffineScale::F32),
];

/// Two super-blocks, two groups with a ragged end, and tiles of every height.
const COLS: usize = 512;
const OUTPUTS: usize = 24;
const ROWS: usize = crate::tile::MAX_ROWS;

const fn affine(bits: u8, group: u16, scale: AffineScale) -> Format {
    Format::Affine { bits, group, scale }
}

/// Whether the kernels of `isa` give the bits of the oracle.
pub(crate) fn passes(isa: Isa) -> bool {
    products_pass(isa) && attention::passes(isa)
}

fn products_pass(isa: Isa) -> bool {
    let [oracle, other] = [Isa::Scalar, isa].map(|isa| CpuBackend::new(1, isa));
    FORMATS.iter().enumerate().all(|(seed, &format)| {
        let mut noise = Noise(seed as u64 + 1);
        let [elements, scales, biases] = bytes(format, &mut noise);
        let data = match format {
            Format::Affine { .. } => {
                PartData::Affine { elements: &elements, scales: &scales, biases: &biases }
            }
            _ => PartData::Plain(&elements),
        };
        let part = Part { format, rows: OUTPUTS, cols: COLS, data, bias: None, order: None };
        let x: Vec<f32> = (0..ROWS * COLS).map(|_| noise.number()).collect();
        let Ok(weight) = oracle.pack(&[part]) else { return false };
        product(&oracle, &weight, &x) == product(&other, &weight, &x)
    })
}

/// Bits of all outputs of calls with one row, with two, and so on.
fn product(backend: &CpuBackend, weight: &Weight, x: &[f32]) -> Vec<u32> {
    let mut bits = Vec::new();
    for rows in 1..=ROWS {
        let (mut input, mut out) = (backend.tensor(rows, COLS), backend.tensor(rows, OUTPUTS));
        backend.write(&mut input, 0, &x[..rows * COLS]);
        backend.linear(weight, &input, Pre::None, Tail::Store, &mut [&mut out]);
        bits.extend((0..rows).flat_map(|row| backend.read(&out, row)).map(f32::to_bits));
    }
    bits
}

/// Random bytes whose scales are ordinary numbers: elements, scales, biases.
fn bytes(format: Format, noise: &mut Noise) -> [Vec<u8>; 3] {
    let mut elements: Vec<u8> = (0..OUTPUTS * format.row_bytes(COLS)).map(|_| noise.next() as u8).collect();
    if let Format::Affine { group, scale, .. } = format {
        let count = OUTPUTS * COLS / usize::from(group);
        let numbers = |noise: &mut Noise| (0..count).flat_map(|_| number(scale, noise)).collect();
        return [elements, numbers(noise), numbers(noise)];
    }
    if let Some(scale) = float(format) {
        return [(0..OUTPUTS * COLS).flat_map(|_| number(scale, noise)).collect(), Vec::new(), Vec::new()];
    }
    for block in elements.chunks_exact_mut(format.block_bytes()) {
        for at in halves(format) {
            block[*at..*at + 2].copy_from_slice(&number(AffineScale::F16, noise));
        }
    }
    [elements, Vec::new(), Vec::new()]
}

/// The type of elements that are numbers themselves.
fn float(format: Format) -> Option<AffineScale> {
    match format {
        Format::F32 => Some(AffineScale::F32),
        Format::F16 => Some(AffineScale::F16),
        Format::Bf16 => Some(AffineScale::Bf16),
        _ => None,
    }
}

/// Where the halves of a block stand.
fn halves(format: Format) -> &'static [usize] {
    match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[0],
    }
}

/// A scale between 1/2 and 1 or its negative, little endian.
fn number(scale: AffineScale, noise: &mut Noise) -> Vec<u8> {
    let bits = noise.next();
    match scale {
        AffineScale::F16 => (0x3800 | (bits & 0x83ff) as u16).to_le_bytes().to_vec(),
        AffineScale::Bf16 => (0x3f00 | (bits & 0x807f) as u16).to_le_bytes().to_vec(),
        AffineScale::F32 => (0x3f00_0000 | (bits & 0x807f_ffff) as u32).to_le_bytes().to_vec(),
    }
}

/// A generator of numbers (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Evenly in -2..2.
    fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 22) as f32 - 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_of_this_machine_pass() {
        assert!(Isa::available().all(passes));
    }
}
