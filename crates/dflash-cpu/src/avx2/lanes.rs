use std::arch::x86_64::*;

use dflash_tensor::Activation;

use super::math;
use crate::pack::LANES;

/// `act(gate) * up`.
pub(crate) fn glu(activation: Activation, gate: &[f32; LANES], up: &[f32; LANES]) -> [f32; LANES] {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { glu_features(activation, gate, up) }
}

#[target_feature(enable = "avx2,fma")]
fn glu_features(activation: Activation, gate: &[f32; LANES], up: &[f32; LANES]) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    for first in (0..LANES).step_by(8) {
        // SAFETY: eight floats from `first` on lie in all three.
        unsafe {
            let gate = math::activate(activation, _mm256_loadu_ps(gate.as_ptr().add(first)));
            let product = _mm256_mul_ps(gate, _mm256_loadu_ps(up.as_ptr().add(first)));
            _mm256_storeu_ps(out.as_mut_ptr().add(first), product);
        }
    }
    out
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(cap: f32, x: &[f32; LANES]) -> [f32; LANES] {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { softcap_features(cap, x) }
}

#[target_feature(enable = "avx2,fma")]
fn softcap_features(cap: f32, x: &[f32; LANES]) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    for first in (0..LANES).step_by(8) {
        // SAFETY: eight floats from `first` on lie in both.
        unsafe {
            let capped = math::softcap(cap, _mm256_loadu_ps(x.as_ptr().add(first)));
            _mm256_storeu_ps(out.as_mut_ptr().add(first), capped);
        }
    }
    out
}

/// Adds `exp(x - max)` to each lane, chunk after chunk.
pub(crate) fn sum_exp(chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { sum_exp_features(chunks, max) }
}

#[target_feature(enable = "avx2,fma")]
fn sum_exp_features(chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    let (max, mut low, mut high) = (_mm256_set1_ps(max), _mm256_setzero_ps(), _mm256_setzero_ps());
    for chunk in chunks {
        // SAFETY: a chunk is twice eight floats.
        let x = unsafe { (_mm256_loadu_ps(chunk.as_ptr()), _mm256_loadu_ps(chunk.as_ptr().add(8))) };
        low = _mm256_add_ps(low, math::exp(_mm256_sub_ps(x.0, max)));
        high = _mm256_add_ps(high, math::exp(_mm256_sub_ps(x.1, max)));
    }
    let mut out = [0.0; LANES];
    // SAFETY: `out` is twice eight floats.
    unsafe {
        _mm256_storeu_ps(out.as_mut_ptr(), low);
        _mm256_storeu_ps(out.as_mut_ptr().add(8), high);
    }
    out
}

/// `out = factor * x + out`, fused.
pub(crate) fn add_scaled(factor: f32, x: &[f32], out: &mut [f32]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { add_scaled_features(factor, x, out) }
}

#[target_feature(enable = "avx2,fma")]
fn add_scaled_features(factor: f32, x: &[f32], out: &mut [f32]) {
    crate::lanes::add_scaled_body(factor, x, out);
}
