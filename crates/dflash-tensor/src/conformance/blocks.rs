//! Blocks of every format: random ones, and what their elements mean, straight from the description.

use half::{bf16, f16};

use super::data::Random;
use crate::Format;

/// Element `i` of a block; of MLX the integer alone.
pub(super) fn element(format: Format, bytes: &[u8], i: usize) -> f64 {
    let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64();
    let nibble = |at: usize| bytes[at + i % 16] >> (i / 16 * 4) & 15;
    let fifth = |at: usize| nibble(at + 4) | (bytes[at + i / 8] >> (i % 8) & 1) << 4;
    match format {
        Format::F32 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
        Format::F16 => half(0),
        Format::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        Format::Q8_0 => half(0) * f64::from(bytes[2 + i].cast_signed()),
        Format::Q4_0 => half(0) * (f64::from(nibble(2)) - 8.0),
        Format::Q4_1 => half(0) * f64::from(nibble(4)) + half(2),
        Format::Q5_0 => half(0) * (f64::from(fifth(2)) - 16.0),
        Format::Q5_1 => half(0) * f64::from(fifth(4)) + half(2),
        Format::Q2K => {
            let (scale, q) = (bytes[i / 16], q2k(&bytes[16..80], i));
            half(80) * f64::from(scale & 15) * f64::from(q) - half(82) * f64::from(scale >> 4)
        }
        Format::Q3K => {
            let q = q2k(&bytes[32..96], i) | (bytes[i % 32] >> (i / 32) & 1) << 2;
            half(108) * (f64::from(q3k_scale(&bytes[96..108], i / 16)) - 32.0) * (f64::from(q) - 4.0)
        }
        Format::Q4K | Format::Q5K => {
            let (scale, min) = k_factors(&bytes[4..16], i / 32);
            let wide = matches!(format, Format::Q5K);
            let nibble = bytes[if wide { 48 } else { 16 } + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
            let fifth = if wide { bytes[16 + i % 32] >> (i / 32) & 1 } else { 0 };
            half(0) * f64::from(scale) * f64::from(nibble | fifth << 4) - half(2) * f64::from(min)
        }
        Format::Q6K => {
            let (n, l, quarter) = (i / 128, i % 32, i / 32 % 4);
            let nibble = bytes[64 * n + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
            let q = nibble | (bytes[128 + 32 * n + l] >> (2 * quarter) & 3) << 4;
            half(208) * f64::from(bytes[192 + i / 16].cast_signed()) * (f64::from(q) - 32.0)
        }
        Format::Affine { bits, .. } => {
            let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
            let first = i * usize::from(bits);
            f64::from((0..usize::from(bits)).map(|at| bit(first + at) << at).sum::<u32>())
        }
    }
}

fn q2k(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3
}

/// The low four bits of sixteen scales in eight bytes, the high two in four.
fn q3k_scale(bytes: &[u8], i: usize) -> u8 {
    bytes[i % 8] >> (i / 8 * 4) & 15 | (bytes[8 + i % 4] >> (i / 4 * 2) & 3) << 4
}

/// Scale and minimum of 32 elements.
fn k_factors(s: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (s[j] & 63, s[j + 4] & 63);
    }
    (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
}

/// Where the halves of a block are, and how often their value goes into the largest element.
fn halves(format: Format) -> &'static [(usize, f32)] {
    match format {
        Format::Q8_0 => &[(0, 128.0)],
        Format::Q4_0 => &[(0, 8.0)],
        Format::Q4_1 => &[(0, 8.0), (2, 1.0)],
        Format::Q5_0 => &[(0, 16.0)],
        Format::Q5_1 => &[(0, 16.0), (2, 1.0)],
        Format::Q2K => &[(80, 45.0), (82, 15.0)],
        Format::Q3K => &[(108, 128.0)],
        Format::Q4K => &[(0, 945.0), (2, 63.0)],
        Format::Q5K => &[(0, 1953.0), (2, 63.0)],
        Format::Q6K => &[(208, 4096.0)],
        Format::F32 | Format::F16 | Format::Bf16 | Format::Affine { .. } => &[],
    }
}

/// Appends a block whose elements are of the size of real weights.
pub(super) fn push(format: Format, random: &mut Random, to: &mut Vec<u8>) {
    let value = 0.3 * random.uniform();
    match format {
        Format::F32 => return to.extend(value.to_le_bytes()),
        Format::F16 => return to.extend(f16::from_f32(value).to_le_bytes()),
        Format::Bf16 => return to.extend(bf16::from_f32(value).to_le_bytes()),
        _ => {}
    }
    let first = to.len();
    to.extend((0..format.block_bytes()).map(|_| random.next() as u8));
    for &(at, times) in halves(format) {
        let half = f16::from_f32(0.3 * random.uniform() / times);
        to[first + at..][..2].copy_from_slice(&half.to_le_bytes());
    }
}
