use dflash_tensor::{AffineScale, Format, Part, PartData};
use half::{bf16, f16};

/// How a float draft is quantised while it loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftQuant {
    /// Bits of an element: 2, 4 or 8.
    pub bits: u8,
    /// Inputs that share a scale and a bias: 32, 64 or 128.
    pub group: u16,
}

/// A matrix quantised in memory: MLX affine, the bytes as they would stand in a file.
pub struct AffineMatrix {
    format: Format,
    rows: usize,
    cols: usize,
    elements: Vec<u8>,
    scales: Vec<u8>,
    biases: Vec<u8>,
}

impl AffineMatrix {
    /// Quantises a row-major matrix with `cols` inputs; scales and biases are stored as `scale`.
    ///
    /// # Panics
    /// When bits are none of 2, 4 and 8, or `cols` is not a multiple of the group.
    pub fn quantize(values: &[f32], cols: usize, quant: DraftQuant, scale: AffineScale) -> Self {
        let DraftQuant { bits, group } = quant;
        assert!(
            matches!(bits, 2 | 4 | 8) && cols.is_multiple_of(group as usize),
            "a plan that fits the matrix"
        );
        let (mut elements, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in values.chunks_exact(group as usize) {
            let fit = Fit::of(chunk, bits);
            pack(chunk, fit, bits, &mut elements);
            store(fit.scale, scale, &mut scales);
            store(fit.bias, scale, &mut biases);
        }
        let format = Format::Affine { bits, group, scale };
        Self { format, rows: values.len() / cols, cols, elements, scales, biases }
    }

    /// Elements, scales and biases as a file would hold them.
    pub fn bytes(&self) -> [&[u8]; 3] {
        [&self.elements, &self.scales, &self.biases]
    }

    /// As a part of a packed weight.
    pub fn part<'a>(&'a self, bias: Option<&'a [f32]>, order: Option<&'a [u32]>) -> Part<'a> {
        let data = PartData::Affine { elements: &self.elements, scales: &self.scales, biases: &self.biases };
        Part { format: self.format, rows: self.rows, cols: self.cols, data, bias, order }
    }
}

/// The affine line of one group: `w = scale*q + bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fit {
    scale: f32,
    bias: f32,
    top: f32,
}

impl Fit {
    /// MLX's rule: the end of the range with the larger magnitude lies on the line exactly, and so does zero.
    fn of(group: &[f32], bits: u8) -> Self {
        let low = group.iter().copied().fold(f32::INFINITY, f32::min);
        let high = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let top = ((1u32 << bits) - 1) as f32;
        let step = ((high - low) / top).max(1e-7);
        let (step, edge) = if low.abs() > high.abs() { (step, low) } else { (-step, high) };
        let zero = (edge / step).round_ties_even();
        if zero == 0.0 {
            Self { scale: step, bias: 0.0, top }
        } else {
            Self { scale: edge / zero, bias: edge, top }
        }
    }

    fn element(self, value: f32) -> u8 {
        ((value - self.bias) / self.scale).round_ties_even().clamp(0.0, self.top) as u8
    }
}

/// Elements as a stream of bits, lowest first; `bits` divides a byte.
fn pack(group: &[f32], fit: Fit, bits: u8, elements: &mut Vec<u8>) {
    let join = |byte: u8, &value: &f32| byte.checked_shl(bits.into()).unwrap_or(0) | fit.element(value);
    elements
        .extend(group.chunks_exact(8 / usize::from(bits)).map(|values| values.iter().rev().fold(0, join)));
}

fn store(value: f32, scale: AffineScale, bytes: &mut Vec<u8>) {
    match scale {
        AffineScale::F32 => bytes.extend(value.to_le_bytes()),
        AffineScale::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
        AffineScale::Bf16 => bytes.extend(bf16::from_f32(value).to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of 32 with the elements, scale and bias that an independent f32 implementation gives.
    #[test]
    fn fits_known_groups() {
        // 0..31 / 8: the high end is larger, so the scale is negative and counts down from it.
        let ramp = (0..32).map(|i| i as f32 / 8.0).collect::<Vec<_>>();
        let fit = Fit::of(&ramp, 4);
        assert_eq!((fit.scale, fit.bias), (3.875 / -15.0, 3.875));
        assert_eq!((fit.element(3.875), fit.element(0.0), fit.element(2.0)), (0, 15, 7));
        // -1..0.5: the low end is larger; -1/0.1 = -10 exactly, so zero is element 10.
        let fit = Fit::of(&[-1.0, 0.5, 0.25, 0.0], 4);
        assert_eq!((fit.scale, fit.bias), (-1.0 / -10.0, -1.0));
        assert_eq!((fit.element(-1.0), fit.element(0.0), fit.element(0.5)), (0, 10, 15));
    }

    fn check_vector(quant: DraftQuant, scale: AffineScale, words: &[u32], scales: &[u32], biases: &[u32]) {
        let values = (0..64).map(|i| ((i * 37 % 101) as f32 - 40.0) / 17.0).collect::<Vec<_>>();
        let matrix = AffineMatrix::quantize(&values, 64, quant, scale);
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(matrix.elements, bytes(words));
        let stored = |floats: &[u32]| match scale {
            AffineScale::F32 => bytes(floats),
            _ => floats.iter().flat_map(|bits| ((bits >> 16) as u16).to_le_bytes()).collect(),
        };
        assert_eq!((matrix.scales, matrix.biases), (stored(scales), stored(biases)));
    }

    /// Bits given by an independent implementation of the same rule.
    #[test]
    fn whole_rows_match_known_bits() {
        let words = [
            0x6c28_e49f,
            0x7d39_f5a1,
            0x9e4a_06c2,
            0xa06b_27d3,
            0xb17c_38e4,
            0xc28d_49f5,
            0xd39e_5a16,
            0xe4a0_6b27,
        ];
        let quant = DraftQuant { bits: 4, group: 64 };
        check_vector(quant, AffineScale::F32, &words, &[0xbec8_c8c9], &[0x4061_e1e2]);
        check_vector(quant, AffineScale::Bf16, &words, &[0xbec9_0000], &[0x4062_0000]);
        let words = [
            0xe642_a1ff,
            0x6ecc_2987,
            0xf754_b20f,
            0x7fde_3b99,
            0x0866_c421,
            0x91f0_4cab,
            0x1a78_d633,
            0xa300_5ebd,
            0x2a8b_ec44,
            0xb810_71d2,
            0x3c9e_ff57,
            0xca22_83e5,
            0x4fb0_0869,
            0xdd35_96f7,
            0x61c2_1a7b,
            0xef47_a800,
        ];
        let quant = DraftQuant { bits: 8, group: 32 };
        check_vector(
            quant,
            AffineScale::F32,
            &words,
            &[0xbcbc_f936, 0xbcb7_6d1a],
            &[0x4061_e1e2, 0x405e_1e1e],
        );
        check_vector(
            quant,
            AffineScale::Bf16,
            &words,
            &[0xbcbd_0000, 0xbcb7_0000],
            &[0x4062_0000, 0x405e_0000],
        );
    }

    #[test]
    fn a_constant_group_keeps_its_value() {
        for value in [0.0f32, 0.75, -3.0] {
            let fit = Fit::of(&[value; 32], 8);
            let back = fit.scale * f32::from(fit.element(value)) + fit.bias;
            assert!((back - value).abs() < 1e-6, "{value} became {back}");
        }
    }

    #[test]
    fn every_value_lands_within_half_a_step() {
        let values = (0..256).map(|i| ((i * 37 % 101) as f32 - 40.0) / 17.0).collect::<Vec<_>>();
        for bits in [2, 4, 8] {
            for group in values.chunks(64) {
                let fit = Fit::of(group, bits);
                for &value in group {
                    let back = fit.scale * f32::from(fit.element(value)) + fit.bias;
                    // The anchored end may push the other end out by up to half a step.
                    assert!((back - value).abs() <= fit.scale.abs() * 1.01, "{value} became {back}");
                }
            }
        }
    }

    #[test]
    fn four_bit_elements_are_packed_low_nibble_first() {
        let mut row = vec![0.0f32; 32];
        (row[0], row[1]) = (15.0, 1.0);
        let matrix = AffineMatrix::quantize(&row, 32, DraftQuant { bits: 4, group: 32 }, AffineScale::F32);
        // scale -1, bias 15: element = 15 - value.
        assert_eq!((matrix.elements[0], matrix.elements[1]), (14 << 4, 0xff));
        assert_eq!(matrix.elements.len(), 16);
    }
}
