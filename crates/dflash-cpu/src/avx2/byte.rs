use std::arch::x86_64::*;

use crate::quantize::QuantBlock;

/// Integer sums of a block of signed bytes, a lane per output row.
///
/// A lane of vector `v` holds inputs `4v..4v+4`. The sign of a weight moves to the activation, so that the
/// weight is unsigned: `128 * 127 * 2` fits 16 bits.
///
/// # Safety
/// Every pointer of `weights` has 256 bytes, every one of `rows` a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn byte_sums<const R: usize, const G: usize>(
    weights: [*const u8; G],
    rows: [*const QuantBlock; R],
) -> [[__m256i; R]; G] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); R]; G];
    for v in 0..8 {
        // SAFETY: vector `v` of eight lies in the block.
        let signed: [__m256i; G] = std::array::from_fn(|g| unsafe { _mm256_loadu_si256(weights[g].cast::<__m256i>().add(v)) });
        let size = signed.map(|signed| _mm256_abs_epi8(signed));
        for r in 0..R {
            // SAFETY: the run of four lies in the 32 elements of the block.
            let x = unsafe { super::run(rows[r], v) };
            for g in 0..G {
                let pairs = _mm256_maddubs_epi16(size[g], _mm256_sign_epi8(x, signed[g]));
                sums[g][r] = _mm256_add_epi32(sums[g][r], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    sums
}
