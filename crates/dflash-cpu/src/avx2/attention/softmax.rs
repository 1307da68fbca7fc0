use std::arch::x86_64::*;

use super::LANES;
use super::vector::Vector;
use crate::attention::kernel::{KEYS, Scoring, State};
use crate::avx2::math::{exp, tanh};

/// Vectors of scores of a query.
const VECTORS: usize = KEYS / LANES;

/// Turns products into scores, those of hidden keys into minus infinity; gives their maximum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scores(how: Scoring, p: &mut [f32; KEYS], mask: u64) -> f32 {
    let mut scores = [_mm256_setzero_ps(); VECTORS];
    for (score, p) in scores.iter_mut().zip(p.chunks_exact(LANES)) {
        // SAFETY: the chunk is eight floats.
        *score = _mm256_mul_ps(unsafe { _mm256_loadu_ps(p.as_ptr()) }, _mm256_set1_ps(how.scale));
    }
    if let Some(cap) = how.softcap {
        let cap = _mm256_set1_ps(cap);
        scores.iter_mut().for_each(|s| *s = _mm256_mul_ps(cap, tanh(_mm256_div_ps(*s, cap))));
    }
    if mask != u64::MAX {
        hide(&mut scores, mask);
    }
    let mut top = scores[0];
    for (&score, p) in scores.iter().zip(p.chunks_exact_mut(LANES)) {
        top = _mm256_max_ps(top, score);
        // SAFETY: the chunk is eight floats.
        unsafe { _mm256_storeu_ps(p.as_mut_ptr(), score) };
    }
    horizontal_max(top)
}

/// Turns scores into probabilities relative to the maximum; gives their sum.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn probabilities<V: Vector>(p: &mut [f32; KEYS], max: f32) -> f32 {
    // SAFETY: the caller's promise; the chunks are vectors.
    unsafe {
        let (mut sum, max) = (_mm256_setzero_ps(), V::broadcast(max));
        for p in p.chunks_exact_mut(V::LANES) {
            let probabilities = V::load(p.as_ptr()).exp_less(max);
            probabilities.store(p.as_mut_ptr());
            sum = probabilities.add_to(sum);
        }
        horizontal_sum(sum)
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn hide(scores: &mut [__m256; VECTORS], mask: u64) {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (index, score) in scores.iter_mut().enumerate() {
        let byte = _mm256_set1_epi32((mask >> (index * LANES) & 0xff) as i32);
        let visible = _mm256_cmpeq_epi32(_mm256_and_si256(byte, bits), bits);
        let hidden = _mm256_set1_ps(f32::NEG_INFINITY);
        *score = _mm256_blendv_ps(hidden, *score, _mm256_castsi256_ps(visible));
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn horizontal_max(x: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn horizontal_sum(x: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Joins maxima and sums `[max, sum]` at up to eight `slots`; gives the factors of their outputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn factors(state: &mut State<'_>, slots: &[usize], new: &[[f32; 2]]) -> [[f32; 2]; LANES] {
    let (mut old_shift, mut new_shift) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for (index, (&slot, &[max, _])) in slots.iter().zip(new).enumerate() {
        let before = state.max[slot];
        let after = if max > before { max } else { before };
        (old_shift[index], new_shift[index]) = (before - after, max - after);
        state.max[slot] = after;
    }
    let (a, b) = (exp_array(&old_shift), exp_array(&new_shift));
    let mut factors = [[0.0; 2]; LANES];
    for (index, (&slot, &[_, sum])) in slots.iter().zip(new).enumerate() {
        state.sum[slot] = state.sum[slot].mul_add(a[index], sum * b[index]);
        factors[index] = [a[index], b[index]];
    }
    factors
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn exp_array(x: &[f32; LANES]) -> [f32; LANES] {
    let mut y = [0.0; LANES];
    // SAFETY: both arrays are eight floats.
    unsafe { _mm256_storeu_ps(y.as_mut_ptr(), exp(_mm256_loadu_ps(x.as_ptr()))) };
    y
}
