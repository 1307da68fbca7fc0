use std::arch::x86_64::*;

use crate::avx2::scale::{Brain, Half, Single, Widen};

/// Sixteen numbers of a storage type, widened.
pub(super) trait Widen16: Widen {
    /// Reads sixteen.
    ///
    /// # Safety
    /// `16 * BYTES` bytes are readable, and the machine has AVX-512.
    unsafe fn widen16(bytes: *const u8) -> __m512;
}

impl Widen16 for Single {
    #[inline(always)]
    unsafe fn widen16(bytes: *const u8) -> __m512 {
        // SAFETY: the caller promises 64 bytes.
        unsafe { _mm512_loadu_ps(bytes.cast()) }
    }
}

impl Widen16 for Half {
    #[inline(always)]
    unsafe fn widen16(bytes: *const u8) -> __m512 {
        // SAFETY: the caller promises 32 bytes.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bytes.cast())) }
    }
}

impl Widen16 for Brain {
    #[inline(always)]
    unsafe fn widen16(bytes: *const u8) -> __m512 {
        // SAFETY: the caller promises 32 bytes.
        unsafe {
            let halves = _mm256_loadu_si256(bytes.cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        }
    }
}
