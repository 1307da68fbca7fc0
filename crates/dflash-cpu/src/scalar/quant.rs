use dflash_tensor::AffineScale;

use super::{bf16_lane, f16_lane, f32_lane};
use crate::pack::{Kind, LANES};
use crate::quantize::{QuantBlock, WideBlock};

/// The outputs of a group of four-bit weights for one input row.
pub(super) fn nibbles(kind: Kind, weights: &[u8], x: &[QuantBlock]) -> [f32; LANES] {
    dot(kind, weights, x, |elements, x| Sums {
        lanes: nibble_sums(elements, x),
        scale: x.scale,
        sum: x.sum,
        total: x.total,
    })
}

/// The outputs of a group of eight-bit weights for one input row.
pub(super) fn bytes(kind: Kind, weights: &[u8], x: &[WideBlock]) -> [f32; LANES] {
    dot(kind, weights, x, |elements, x| Sums {
        lanes: byte_sums(elements, x),
        scale: x.scale,
        sum: x.sum,
        total: x.total,
    })
}

/// Integer sums of a block, and the numbers of its activations.
struct Sums {
    lanes: [i32; LANES],
    scale: f32,
    sum: f32,
    total: i32,
}

/// A block's sum is an exact integer; scaled sums are added in block order, each followed by its minimum.
#[inline(always)]
fn dot<B>(kind: Kind, weights: &[u8], x: &[B], sums: impl Fn(&[u8], &B) -> Sums) -> [f32; LANES] {
    let mut lanes = [0.0_f32; LANES];
    let blocks = kind.unit_blocks();
    for (unit, x) in weights.chunks_exact(kind.unit_bytes() * LANES).zip(x.chunks_exact(blocks)) {
        let (scales, elements) = unit.split_at(kind.head_bytes() * LANES);
        let scale = widen(kind, scales);
        let min = kind.has_min().then(|| widen(kind, &scales[kind.scale_bytes() * LANES..]));
        for (elements, x) in elements.chunks_exact(elements.len() / blocks).zip(x) {
            add_block(&mut lanes, kind.zero(), &scale, min.as_ref(), &sums(elements, x));
        }
    }
    lanes
}

#[inline(always)]
fn add_block(
    lanes: &mut [f32; LANES],
    zero: i32,
    scale: &[f32; LANES],
    min: Option<&[f32; LANES]>,
    x: &Sums,
) {
    for ((lane, sum), scale) in lanes.iter_mut().zip(x.lanes).zip(scale) {
        let sum = (sum + zero * x.total) as f32;
        *lane = sum.mul_add(scale * x.scale, *lane);
    }
    for (lane, min) in lanes.iter_mut().zip(min.into_iter().flatten()) {
        *lane = min.mul_add(x.sum, *lane);
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

/// Vector `v` holds inputs `4v..4v+4`; the activations have even ones before odd ones.
fn byte_sums(elements: &[u8], x: &WideBlock) -> [i32; LANES] {
    let mut sums = [0; LANES];
    for (bytes, x) in elements.chunks_exact(4 * LANES).zip(x.q.as_chunks::<4>().0) {
        for (sum, lane) in sums.iter_mut().zip(bytes.as_chunks::<4>().0) {
            let x = [x[0], x[2], x[1], x[3]];
            *sum += lane.iter().zip(x).map(|(&byte, x)| i32::from(byte as i8) * i32::from(x)).sum::<i32>();
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
