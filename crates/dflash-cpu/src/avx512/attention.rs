//! [`crate::avx2::attention`] with vectors of sixteen.

use std::arch::x86_64::*;

use half::f16;

use super::math::exp;
use crate::attention::kernel::{State, Visit};
use crate::avx2::attention::{Vector, tiles};

/// [`crate::attention::kernel::block`] for heads of a multiple of sixteen dimensions.
pub(crate) fn block(visit: Visit<'_>, state: &mut State<'_>) {
    // SAFETY: a backend takes this instruction set only where it was detected.
    unsafe { block_features(visit, state) }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f")]
fn block_features(visit: Visit<'_>, state: &mut State<'_>) {
    // SAFETY: these are the features of the vectors.
    unsafe { tiles::<__m512, 4>(visit, state) }
}

impl Vector for __m512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn broadcast(x: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn widen(from: *const f16) -> Self {
        // SAFETY: as above; f16 is a transparent u16.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(self, factor) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(self, factor, sum) }
    }

    #[inline(always)]
    unsafe fn exp_less(self, shift: Self) -> Self {
        // SAFETY: as above.
        unsafe { exp(_mm512_sub_ps(self, shift)) }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self)));
            _mm256_add_ps(_mm256_add_ps(sum, _mm512_castps512_ps256(self)), high)
        }
    }
}
