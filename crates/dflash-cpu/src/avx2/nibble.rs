use std::arch::x86_64::*;

use crate::quantize::QuantBlock;

/// Integer sums of a block of unsigned nibbles, a lane per output row.
///
/// A lane of vector `v` holds inputs `4v..4v+4` in its low nibbles and `16+4v..` in its high ones. Eight
/// products of nibbles are added in 16 bits: `15 * 127 * 2 * 8 = 30480` fits.
///
/// # Safety
/// `weights` has 256 bytes, every one of `rows` a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn nibble_sums<const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
) -> [[__m256i; 2]; R] {
    let mask = _mm256_set1_epi8(15);
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for v in 0..4 {
        let (mut low, mut high) = ([mask; 2], [mask; 2]);
        for half in 0..2 {
            // SAFETY: vectors `2v` and `2v+1` of eight lie in the block.
            let both = unsafe { _mm256_loadu_si256(weights.cast::<__m256i>().add(2 * v + half)) };
            low[half] = _mm256_and_si256(both, mask);
            high[half] = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
        }
        for r in 0..R {
            // SAFETY: both runs of four lie in the 32 elements of the block.
            let (x_low, x_high) = unsafe { (run(rows[r], v), run(rows[r], v + 4)) };
            for half in 0..2 {
                let low = _mm256_maddubs_epi16(low[half], x_low);
                let high = _mm256_maddubs_epi16(high[half], x_high);
                sums[r][half] = _mm256_add_epi16(_mm256_add_epi16(sums[r][half], low), high);
            }
        }
        super::hold(&mut sums);
    }
    let ones = _mm256_set1_epi16(1);
    for sum in sums.as_flattened_mut() {
        *sum = _mm256_madd_epi16(*sum, ones);
    }
    sums
}

/// Activations `4*index..4*index+4` of a block in every lane.
///
/// # Safety
/// `block` is readable and `index` below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn run(block: *const QuantBlock, index: usize) -> __m256i {
    // SAFETY: `q` begins the block, and run `index` lies in its 32 bytes.
    _mm256_set1_epi32(unsafe { block.cast::<i32>().add(index).read_unaligned() })
}
