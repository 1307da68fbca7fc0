use dflash_tensor::AffineScale;

use super::{bf16_lane, f16_lane, f32_lane};
use crate::pack::{Kind, LANES};
use crate::quantize::QuantBlock;

/// The outputs of a group for one input row. A block's sum is an exact integer; scaled sums are added in block order,
/// each followed by its minimum.
pub(super) fn dot(kind: Kind, weights: &[u8], x: &[QuantBlock]) -> [f32; LANES] {
    let mut lanes = [0.0_f32; LANES];
    let blocks = kind.unit_blocks();
    for (unit, x) in weights.chunks_exact(kind.unit_bytes() * LANES).zip(x.chunks_exact(blocks)) {
        let (elements, scales) = unit.split_at(kind.element_bytes() * LANES);
        let scale = widen(kind, scales);
        let min = kind.has_min().then(|| widen(kind, &scales[kind.scale_bytes() * LANES..]));
        for (elements, x) in elements.chunks_exact(elements.len() / blocks).zip(x) {
            add_block(&mut lanes, kind, elements, &scale, x);
            if let Some(min) = &min {
                lanes.iter_mut().zip(min).for_each(|(lane, min)| *lane = min.mul_add(x.sum, *lane));
            }
        }
    }
    lanes
}

#[inline(always)]
fn add_block(lanes: &mut [f32; LANES], kind: Kind, elements: &[u8], scale: &[f32; LANES], x: &QuantBlock) {
    let sums = if kind.is_nibble() { nibble_sums(elements, x) } else { byte_sums(elements, x) };
    for ((lane, sum), scale) in lanes.iter_mut().zip(sums).zip(scale) {
        let sum = (sum + kind.zero() * x.total) as f32;
        *lane = sum.mul_add(scale * x.scale, *lane);
    }
}

/// Vector `v` holds inputs `4v..4v+4` in its low nibbles and `16+4v..` in its high ones.
fn nibble_sums(elements: &[u8], x: &QuantBlock) -> [i32; LANES] {
    let mut sums = [0; LANES];
    for (vector, bytes) in elements.chunks_exact(4 * LANES).enumerate() {
        for (i, &byte) in bytes.iter().enumerate() {
            let (lane, k) = (i / 4, 4 * vector + i % 4);
            let products = (i32::from(byte & 15), i32::from(byte >> 4));
            sums[lane] += products.0 * i32::from(x.q[k]) + products.1 * i32::from(x.q[k + 16]);
        }
    }
    sums
}

/// Vector `v` holds inputs `4v..4v+4`.
fn byte_sums(elements: &[u8], x: &QuantBlock) -> [i32; LANES] {
    let mut sums = [0; LANES];
    for (vector, bytes) in elements.chunks_exact(4 * LANES).enumerate() {
        for (i, &byte) in bytes.iter().enumerate() {
            sums[i / 4] += i32::from(byte as i8) * i32::from(x.q[4 * vector + i % 4]);
        }
    }
    sums
}

fn widen(kind: Kind, bytes: &[u8]) -> [f32; LANES] {
    let width = kind.scale_bytes();
    std::array::from_fn(|lane| {
        let bytes = &bytes[lane * width..][..width];
        match kind.scale() {
            AffineScale::F16 => f16_lane(bytes),
            AffineScale::Bf16 => bf16_lane(bytes),
            AffineScale::F32 => f32_lane(bytes),
        }
    })
}
