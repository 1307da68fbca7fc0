use std::arch::x86_64::*;

use crate::quantize::QuantBlock;

/// Integer sums of a block of unsigned nibbles, a lane per output row.
///
/// A lane of vector `v` holds inputs `4v..4v+4` in its low nibbles and `16+4v..` in its high ones. Eight
/// products of nibbles are added in 16 bits: `15 * 127 * 2 * 8 = 30480` fits.
///
/// # Safety
/// Every pointer of `weights` has 128 bytes, every one of `rows` a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn nibble_sums<const R: usize, const G: usize>(
    weights: [*const u8; G],
    rows: [*const QuantBlock; R],
) -> [[__m256i; R]; G] {
    let mask = _mm256_set1_epi8(15);
    let mut sums = [[_mm256_setzero_si256(); R]; G];
    for v in 0..4 {
        // SAFETY: vector `v` of four lies in the block.
        let both: [__m256i; G] = std::array::from_fn(|g| unsafe { _mm256_loadu_si256(weights[g].cast::<__m256i>().add(v)) });
        let low = both.map(|both| _mm256_and_si256(both, mask));
        let high = both.map(|both| _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask));
        for r in 0..R {
            // SAFETY: both runs of four lie in the 32 elements of the block.
            let (x_low, x_high) = unsafe { (super::run(rows[r], v), super::run(rows[r], v + 4)) };
            for g in 0..G {
                let low = _mm256_maddubs_epi16(low[g], x_low);
                let high = _mm256_maddubs_epi16(high[g], x_high);
                sums[g][r] = _mm256_add_epi16(_mm256_add_epi16(sums[g][r], low), high);
            }
        }
    }
    let ones = _mm256_set1_epi16(1);
    sums.map(|sums| sums.map(|sum| _mm256_madd_epi16(sum, ones)))
}
