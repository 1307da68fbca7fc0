use std::arch::x86_64::*;

use crate::pack::BLOCK;
use crate::quantize::{QuantBlock, TINY, WideBlock};
use crate::rows::{Norm, normalize};

/// [`crate::rows::rms_norm`].
pub(crate) fn rms_norm(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { rms_norm_features(x, norm, out) }
}

#[target_feature(enable = "avx2,fma")]
fn rms_norm_features(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    normalize(x, norm, out);
}

/// [`crate::quantize::quantize`] of as many blocks as there are, in both widths.
pub(crate) fn quantize(x: &[[f32; BLOCK]], blocks: &mut [QuantBlock], wide: &mut [WideBlock]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { quantize_features(x, blocks, wide) }
}

#[target_feature(enable = "avx2,fma")]
fn quantize_features(x: &[[f32; BLOCK]], blocks: &mut [QuantBlock], wide: &mut [WideBlock]) {
    for (block, x) in blocks.iter_mut().zip(x) {
        let (q, scale) = integers(x);
        (block.scale, (block.sum, block.totals)) = (scale, sums(&q, scale));
        let bytes = in_order(_mm256_packs_epi16(in_order(q[0]), in_order(q[1])));
        // SAFETY: `q` is 32 bytes.
        unsafe { _mm256_storeu_si256(block.q.as_mut_ptr().cast(), bytes) };
    }
    for (block, x) in wide.iter_mut().zip(x) {
        let (q, scale) = integers(x);
        (block.scale, (block.sum, block.totals)) = (scale, sums(&q, scale));
        // SAFETY: `q` is twice 32 bytes.
        unsafe {
            let target = block.q.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(target, even_first(in_order(q[0])));
            _mm256_storeu_si256(target.add(1), even_first(in_order(q[1])));
        }
    }
}

/// Packing works in halves of a vector; this undoes it.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(packed: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// Of every four elements the even ones, then the odd ones.
#[inline]
#[target_feature(enable = "avx2")]
fn even_first(x: __m256i) -> __m256i {
    _mm256_shufflehi_epi16::<0b11_01_10_00>(_mm256_shufflelo_epi16::<0b11_01_10_00>(x))
}

/// The integers in sixteen bits, packed in halves, and the scale.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn integers(x: &[f32; BLOCK]) -> ([__m256i; 2], f32) {
    // SAFETY: a block is four times eight floats.
    let x: [__m256; 4] = unsafe { std::mem::transmute(*x) };
    let largest = largest(&x);
    if !largest.is_finite() {
        return ([_mm256_setzero_si256(); 2], f32::NAN);
    }
    if largest < TINY {
        return ([_mm256_setzero_si256(); 2], 0.0);
    }
    let inverse = _mm256_set1_ps(127.0 / largest);
    // The conversion rounds ties to even.
    let q0 = _mm256_cvtps_epi32(_mm256_mul_ps(x[0], inverse));
    let q1 = _mm256_cvtps_epi32(_mm256_mul_ps(x[1], inverse));
    let q2 = _mm256_cvtps_epi32(_mm256_mul_ps(x[2], inverse));
    let q3 = _mm256_cvtps_epi32(_mm256_mul_ps(x[3], inverse));
    ([_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3)], largest / 127.0)
}

/// The largest magnitude, by bits, so that NaN is above all.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(x: &[__m256; 4]) -> f32 {
    let any = _mm256_set1_epi32(0x7fff_ffff);
    let low = _mm256_max_epi32(magnitude(x[0], any), magnitude(x[1], any));
    let high = _mm256_max_epi32(magnitude(x[2], any), magnitude(x[3], any));
    let eight = _mm256_max_epi32(low, high);
    let four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_max_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    f32::from_bits(_mm_cvtsi128_si32(one) as u32)
}

#[inline]
#[target_feature(enable = "avx2")]
fn magnitude(x: __m256, mask: __m256i) -> __m256i {
    _mm256_and_si256(_mm256_castps_si256(x), mask)
}

/// [`QuantBlock::sum`] and [`QuantBlock::totals`].
#[inline]
#[target_feature(enable = "avx2")]
fn sums(q: &[__m256i; 2], scale: f32) -> (f32, [i16; 2]) {
    let ones = _mm256_set1_epi16(1);
    // Lanes of the first half and of the second take turns in pairs, then stand side by side.
    let both = _mm256_hadd_epi32(_mm256_madd_epi16(q[0], ones), _mm256_madd_epi16(q[1], ones));
    let four = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b10_11_00_01>(four));
    let totals = [_mm_cvtsi128_si32(two) as i16, _mm_extract_epi32::<2>(two) as i16];
    (scale * f32::from(totals[0] + totals[1]), totals)
}
