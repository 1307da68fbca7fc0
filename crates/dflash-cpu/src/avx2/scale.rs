use std::arch::x86_64::*;

/// Eight numbers of a storage type, widened.
pub(crate) trait Widen {
    /// Bytes of one.
    const BYTES: usize;

    /// Reads eight.
    ///
    /// # Safety
    /// `8 * BYTES` bytes are readable, and the machine has AVX2 and F16C.
    unsafe fn widen(bytes: *const u8) -> __m256;
}

/// IEEE single.
pub(crate) struct Single;

impl Widen for Single {
    const BYTES: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(bytes: *const u8) -> __m256 {
        // SAFETY: the caller promises 32 bytes.
        unsafe { _mm256_loadu_ps(bytes.cast()) }
    }
}

/// IEEE half.
pub(crate) struct Half;

impl Widen for Half {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(bytes: *const u8) -> __m256 {
        // SAFETY: the caller promises 16 bytes.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(bytes.cast()) })
    }
}

/// bfloat16.
pub(crate) struct Brain;

impl Widen for Brain {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(bytes: *const u8) -> __m256 {
        // SAFETY: the caller promises 16 bytes.
        let halves = unsafe { _mm_loadu_si128(bytes.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
    }
}

/// The numbers of a group's sixteen lanes.
///
/// # Safety
/// `16 * BYTES` bytes are readable.
#[inline(always)]
pub(super) unsafe fn pair<W: Widen>(bytes: *const u8) -> [__m256; 2] {
    // SAFETY: the caller promises twice eight numbers.
    unsafe { [W::widen(bytes), W::widen(bytes.add(8 * W::BYTES))] }
}
