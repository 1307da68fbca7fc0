//! The elementary functions of [`crate::math`] in eight lanes, with the same bits.

use std::arch::x86_64::*;

use dflash_tensor::Activation;

use crate::math::{
    EXP, EXP_BIAS, EXP_CEILING, EXP_FLOOR, GELU, LN_2_HIGH, LN_2_LOW, LOG2_E, ROUND, TANH, TANH_SMALL,
};

#[inline]
#[target_feature(enable = "avx2,fma")]
fn horner<const N: usize>(coefficients: &[f32; N], x: __m256) -> __m256 {
    let mut sum = _mm256_set1_ps(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        sum = _mm256_fmadd_ps(sum, x, _mm256_set1_ps(coefficient));
    }
    sum
}

/// [`crate::math::exp`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn exp(x: __m256) -> __m256 {
    let below = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(EXP_FLOOR));
    let x = _mm256_min_ps(_mm256_set1_ps(EXP_CEILING), x);
    let round = _mm256_set1_ps(ROUND);
    let shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(LOG2_E), round);
    let n = _mm256_sub_ps(shifted, round);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_HIGH), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_LOW), r);
    let exponent = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(EXP_BIAS));
    let scale = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent));
    _mm256_andnot_ps(below, _mm256_mul_ps(horner(&EXP, r), scale))
}

/// [`crate::math::silu`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn silu(x: __m256) -> __m256 {
    let negative = _mm256_xor_ps(x, _mm256_set1_ps(-0.0));
    _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0), exp(negative)))
}

/// [`crate::math::sigmoid`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn sigmoid(x: __m256) -> __m256 {
    let (negative, one) = (_mm256_xor_ps(x, _mm256_set1_ps(-0.0)), _mm256_set1_ps(1.0));
    _mm256_div_ps(one, _mm256_add_ps(one, exp(negative)))
}

/// [`crate::math::gelu_tanh`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn gelu_tanh(x: __m256) -> __m256 {
    let (linear, cubic) = (_mm256_set1_ps(GELU.0), _mm256_set1_ps(GELU.1));
    let inner = _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_mul_ps(x, x), cubic, linear));
    let half = _mm256_mul_ps(_mm256_set1_ps(0.5), x);
    _mm256_mul_ps(half, _mm256_add_ps(_mm256_set1_ps(1.0), tanh(inner)))
}

/// [`crate::math::activate`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn activate(activation: Activation, x: __m256) -> __m256 {
    match activation {
        Activation::Silu => silu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::Sigmoid => sigmoid(x),
    }
}

/// [`crate::math::softcap`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn softcap(cap: f32, x: __m256) -> __m256 {
    let cap = _mm256_set1_ps(cap);
    _mm256_mul_ps(cap, tanh(_mm256_div_ps(x, cap)))
}

/// [`crate::math::tanh`].
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn tanh(x: __m256) -> __m256 {
    let sign = _mm256_set1_ps(-0.0);
    let size = _mm256_andnot_ps(sign, x);
    let square = _mm256_mul_ps(x, x);
    let small = _mm256_fmadd_ps(_mm256_mul_ps(square, horner(&TANH, square)), x, x);
    let one = _mm256_set1_ps(1.0);
    let part = _mm256_div_ps(_mm256_set1_ps(2.0), _mm256_add_ps(exp(_mm256_add_ps(size, size)), one));
    let large = _mm256_or_ps(_mm256_andnot_ps(sign, _mm256_sub_ps(one, part)), _mm256_and_ps(sign, x));
    let is_small = _mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(TANH_SMALL));
    _mm256_blendv_ps(large, small, is_small)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, math};

    #[target_feature(enable = "avx2,fma")]
    fn lanes(x: [f32; 8], function: usize) -> [f32; 8] {
        // SAFETY: arrays and vectors of eight floats have the same size and no invalid bits.
        let x = unsafe { std::mem::transmute::<[f32; 8], __m256>(x) };
        let y = match function {
            0 => exp(x),
            1 => silu(x),
            2 => tanh(x),
            3 => sigmoid(x),
            4 => gelu_tanh(x),
            _ => softcap(30.0, x),
        };
        // SAFETY: as above.
        unsafe { std::mem::transmute::<__m256, [f32; 8]>(y) }
    }

    #[test]
    fn bits_equal_the_scalar_ones() {
        if !Isa::Avx2.is_available() {
            return;
        }
        let edges = [0.0, f32::INFINITY, f32::NAN, 88.72, 88.73, 86.6, 86.7, 0.625, 1e-40, 89.0, 88.376];
        let edges = edges.into_iter().flat_map(|x| [x, -x]).collect::<Vec<f32>>();
        let sweep = (0..=u32::MAX).step_by(4099).map(f32::from_bits);
        let dense = (0..200_000).map(|i| (i - 100_000) as f32 * 9e-4);
        let all: Vec<f32> = edges.into_iter().chain(sweep).chain(dense).collect();
        let twins: [fn(f32) -> f32; 6] =
            [math::exp, math::silu, math::tanh, math::sigmoid, math::gelu_tanh, |x| math::softcap(30.0, x)];
        for (index, twin) in twins.into_iter().enumerate() {
            for chunk in all.chunks_exact(8) {
                let x: [f32; 8] = chunk.try_into().expect("eight");
                // SAFETY: the features were detected above.
                let y = unsafe { lanes(x, index) };
                for (x, y) in x.into_iter().zip(y) {
                    let expected = twin(x);
                    let same = expected.to_bits() == y.to_bits() || expected.is_nan() && y.is_nan();
                    assert!(same, "function {index} at {x}: {expected} {y}");
                }
            }
        }
    }
}
