use std::arch::x86_64::*;

use half::f16;

use crate::avx2::math::exp;

/// The vectors of an instruction set: floats, one lane of which is a key or a dimension.
///
/// # Safety
/// The functions run only where the machine has the instruction set.
pub(crate) trait Vector: Copy {
    const LANES: usize;

    unsafe fn zero() -> Self;

    unsafe fn broadcast(x: f32) -> Self;

    /// # Safety
    /// [`Vector::LANES`] numbers can be read.
    unsafe fn widen(from: *const f16) -> Self;

    /// # Safety
    /// [`Vector::LANES`] floats can be read.
    unsafe fn load(from: *const f32) -> Self;

    /// # Safety
    /// [`Vector::LANES`] floats can be written.
    unsafe fn store(self, to: *mut f32);

    unsafe fn multiply(self, factor: Self) -> Self;

    /// `self * factor + sum`, fused.
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self;

    /// [`crate::math::exp`] of `self - shift`.
    unsafe fn exp_less(self, shift: Self) -> Self;

    /// `sum` and eight lanes after the other.
    unsafe fn add_to(self, sum: __m256) -> __m256;
}

impl Vector for __m256 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn broadcast(x: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn widen(from: *const f16) -> Self {
        // SAFETY: as above; f16 is a transparent u16.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_mul_ps(self, factor) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_fmadd_ps(self, factor, sum) }
    }

    #[inline(always)]
    unsafe fn exp_less(self, shift: Self) -> Self {
        // SAFETY: as above.
        unsafe { exp(_mm256_sub_ps(self, shift)) }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_add_ps(sum, self) }
    }
}
