//! [`crate::math::exp`] in sixteen lanes, with the same bits.

use std::arch::x86_64::*;

use crate::math::{EXP, EXP_BIAS, EXP_CEILING, EXP_FLOOR, LN_2_HIGH, LN_2_LOW, LOG2_E, ROUND};

/// [`crate::math::exp`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp(x: __m512) -> __m512 {
    let normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(EXP_FLOOR));
    let x = _mm512_min_ps(_mm512_set1_ps(EXP_CEILING), x);
    let round = _mm512_set1_ps(ROUND);
    let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(LOG2_E), round);
    let n = _mm512_sub_ps(shifted, round);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), r);
    let exponent = _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(EXP_BIAS));
    let scale = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent));
    let mut sum = _mm512_set1_ps(EXP[0]);
    for &coefficient in &EXP[1..] {
        sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(coefficient));
    }
    _mm512_maskz_mul_ps(normal, sum, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, math};

    #[target_feature(enable = "avx512f")]
    fn lanes(x: &[f32; 16]) -> [f32; 16] {
        let mut y = [0.0; 16];
        // SAFETY: both arrays are sixteen floats.
        unsafe { _mm512_storeu_ps(y.as_mut_ptr(), exp(_mm512_loadu_ps(x.as_ptr()))) };
        y
    }

    #[test]
    fn bits_equal_the_scalar_ones() {
        if !Isa::Avx512.is_available() {
            return;
        }
        let edges = [0.0, f32::INFINITY, f32::NAN, 88.72, 88.73, 86.6, 86.7, 89.0].map(|x| [x, -x]);
        let sweep = (0..=u32::MAX).step_by(4099).map(f32::from_bits);
        let all: Vec<f32> = edges.into_iter().flatten().chain(sweep).collect();
        for x in all.as_chunks::<16>().0 {
            // SAFETY: the features were detected above.
            for (x, y) in x.iter().zip(unsafe { lanes(x) }) {
                let expected = math::exp(*x);
                let same = expected.to_bits() == y.to_bits() || expected.is_nan() && y.is_nan();
                assert!(same, "exp at {x}: {expected} {y}");
            }
        }
    }
}
