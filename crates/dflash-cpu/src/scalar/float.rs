use super::{bf16_lane, f16_lane, f32_lane};
use crate::pack::{Kind, LANES};

/// The outputs of a group for one input row: each lane adds its products in the order of the inputs.
pub(super) fn dot(kind: Kind, weights: &[u8], x: &[f32]) -> [f32; LANES] {
    match kind {
        Kind::F32 => sum(weights, x, 4, f32_lane),
        Kind::F16 => sum(weights, x, 2, f16_lane),
        Kind::Bf16 => sum(weights, x, 2, bf16_lane),
        _ => unreachable!("{kind:?} takes quantised inputs"),
    }
}

#[inline(always)]
fn sum(weights: &[u8], x: &[f32], width: usize, widen: impl Fn(&[u8]) -> f32) -> [f32; LANES] {
    let mut lanes = [0.0_f32; LANES];
    for (weights, x) in weights.chunks_exact(width * LANES).zip(x) {
        for (lane, weight) in lanes.iter_mut().zip(weights.chunks_exact(width)) {
            *lane = widen(weight).mul_add(*x, *lane);
        }
    }
    lanes
}
