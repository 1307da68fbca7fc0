use std::arch::x86_64::*;

use super::quant::Elements;
use crate::pack::{BLOCK, LANES};
use crate::quantize::WideBlock;

/// Signed elements of eight bits.
pub(super) struct Bytes;

impl Elements for Bytes {
    type Block = WideBlock;
    const BYTES: usize = BLOCK * LANES;

    #[inline(always)]
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const WideBlock; R]) -> [[__m256i; 2]; R] {
        // SAFETY: the caller's promise.
        unsafe { byte_sums(weights, rows) }
    }
}

/// Integer sums of a block of signed bytes, a lane per output row.
///
/// A lane of vector `v` holds inputs `4v..4v+4`. Both sides are widened to 16 bits, the weights here, once
/// for all rows. Moving signs to the activations instead, to multiply bytes, takes more of the two ports
/// that multiply.
///
/// # Safety
/// `weights` has 512 bytes, every one of `rows` a block.
#[inline(always)]
unsafe fn byte_sums<const R: usize>(weights: *const u8, rows: [*const WideBlock; R]) -> [[__m256i; 2]; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for v in 0..8 {
            let (mut even, mut odd) = ([sums[0][0]; 2], [sums[0][0]; 2]);
            for half in 0..2 {
                let bytes = _mm256_loadu_si256(weights.cast::<__m256i>().add(2 * v + half));
                even[half] = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
                odd[half] = _mm256_srai_epi16::<8>(bytes);
            }
            for r in 0..R {
                let (x_even, x_odd) = (pair(rows[r], 2 * v), pair(rows[r], 2 * v + 1));
                for half in 0..2 {
                    let even = _mm256_madd_epi16(even[half], x_even);
                    let odd = _mm256_madd_epi16(odd[half], x_odd);
                    sums[r][half] = _mm256_add_epi32(_mm256_add_epi32(sums[r][half], even), odd);
                }
            }
            super::hold(&mut sums);
        }
        sums
    }
}

/// Pair `index` of a block in every lane.
///
/// # Safety
/// `block` is readable and `index` below 16.
#[inline(always)]
unsafe fn pair(block: *const WideBlock, index: usize) -> __m256i {
    // SAFETY: `q` begins the block, and pair `index` lies in its 64 bytes.
    unsafe { _mm256_set1_epi32(block.cast::<i32>().add(index).read_unaligned()) }
}
