use std::arch::x86_64::*;

use crate::quantize::QuantBlock;

/// Integer sums of a block of signed bytes, a lane per output row.
///
/// A lane of vector `v` holds inputs `4v..4v+4`. The sign of a weight moves to the activation, so that the
/// weight is unsigned: `128 * 127 * 2` fits 16 bits.
///
/// # Safety
/// `weights` has 512 bytes, every one of `rows` a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn byte_sums<const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
) -> [[__m256i; 2]; R] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for v in 0..8 {
        let (mut signed, mut size) = ([ones; 2], [ones; 2]);
        for half in 0..2 {
            // SAFETY: vectors `2v` and `2v+1` of sixteen lie in the block.
            signed[half] = unsafe { _mm256_loadu_si256(weights.cast::<__m256i>().add(2 * v + half)) };
            size[half] = _mm256_abs_epi8(signed[half]);
        }
        for r in 0..R {
            // SAFETY: the run of four lies in the 32 elements of the block.
            let x = unsafe { super::run(rows[r], v) };
            for half in 0..2 {
                let pairs = _mm256_maddubs_epi16(size[half], _mm256_sign_epi8(x, signed[half]));
                sums[r][half] = _mm256_add_epi32(sums[r][half], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    sums
}
