use std::arch::x86_64::*;

use super::quant::Elements;
use crate::pack::planes::{fields, step};
use crate::pack::{BLOCK, LANES};
use crate::quantize::QuantBlock;

/// Unsigned elements of two to six bits, [`crate::pack::planes`].
pub(super) struct Planes<const BITS: u8>;

/// What sums are multiplied with: of the first and of the last sixteen inputs, two vectors of lanes each, in
/// both halves of a 32-bit lane.
pub(super) type HalfFactors = [[__m256i; 2]; 2];

impl<const BITS: u8> Elements for Planes<BITS> {
    type Block = QuantBlock;
    const BYTES: usize = BLOCK / 8 * BITS as usize * LANES;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const QuantBlock; R]) -> [[__m256i; 2]; R] {
        let ones = _mm256_set1_epi16(1);
        // SAFETY: the caller's promise.
        unsafe {
            match BITS {
                2..=4 => narrow_sums::<BITS, R>(weights, rows),
                _ => wide_sums::<BITS, R>(weights, rows, [[ones; 2]; 2]),
            }
        }
    }
}

/// Integer sums of a block, a lane per output row. Products of up to four bits are added in 16 bits to the
/// end, sixteen of them in each: `15 * 127 * 16 = 30480` fits.
///
/// # Safety
/// `weights` has a block of 16 rows, every one of `rows` a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow_sums<const BITS: u8, const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
) -> [[__m256i; 2]; R] {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for index in 0..4 {
        let [first, second] = step(BITS, index);
        // SAFETY: both quads lie in the block.
        let (low, high) = unsafe { (elements::<BITS>(weights, first), elements::<BITS>(weights, second)) };
        for r in 0..R {
            // SAFETY: as above.
            let (x_low, x_high) = unsafe { (quad(rows[r], first), quad(rows[r], second)) };
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

/// Integer sums of a block, with a factor for each half of its inputs. Two products of six bits are added
/// twice in 16 bits, `63 * 127 * 4 = 32004` fits, then multiplied by their factor into 32.
///
/// # Safety
/// As [`narrow_sums`]; `BITS` is not four, whose steps take both halves at once, unless all factors are equal.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn wide_sums<const BITS: u8, const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
    factors: HalfFactors,
) -> [[__m256i; 2]; R] {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for index in 0..4 {
        let [first, second] = step(BITS, index);
        // SAFETY: both quads lie in the block.
        let (low, high) = unsafe { (elements::<BITS>(weights, first), elements::<BITS>(weights, second)) };
        for r in 0..R {
            // SAFETY: as above.
            let (x_low, x_high) = unsafe { (quad(rows[r], first), quad(rows[r], second)) };
            for half in 0..2 {
                let low = _mm256_maddubs_epi16(low[half], x_low);
                let high = _mm256_maddubs_epi16(high[half], x_high);
                let products = _mm256_madd_epi16(_mm256_add_epi16(low, high), factors[index / 2][half]);
                sums[r][half] = _mm256_add_epi32(sums[r][half], products);
            }
        }
        super::hold(&mut sums);
    }
    sums
}

/// The elements of quad `quad` in sixteen lanes.
///
/// # Safety
/// `weights` has a block of 16 rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn elements<const BITS: u8>(weights: *const u8, quad: usize) -> [__m256i; 2] {
    let mut all = [_mm256_setzero_si256(); 2];
    for field in fields(BITS, quad) {
        for (half, all) in all.iter_mut().enumerate() {
            // SAFETY: word `field.word` of both halves of the lanes lies in the block.
            let word = unsafe { _mm256_loadu_si256(weights.cast::<__m256i>().add(2 * field.word + half)) };
            let bits =
                _mm256_and_si256(moved(word, field.from, field.to), _mm256_set1_epi8(field.mask as i8));
            *all = _mm256_or_si256(*all, bits);
        }
    }
    all
}

/// Moves bit `from` to bit `to`; the number of bits is a constant wherever this is compiled into a step.
#[inline]
#[target_feature(enable = "avx2")]
fn moved(word: __m256i, from: usize, to: usize) -> __m256i {
    match from.checked_sub(to) {
        Some(0) => word,
        Some(right) => _mm256_srl_epi16(word, _mm_cvtsi32_si128(right as i32)),
        None => _mm256_sll_epi16(word, _mm_cvtsi32_si128((to - from) as i32)),
    }
}

/// Activations of quad `index` of a block in every lane.
///
/// # Safety
/// `block` is readable and `index` below 8.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn quad(block: *const QuantBlock, index: usize) -> __m256i {
    // SAFETY: `q` begins the block, and quad `index` lies in its 32 bytes.
    _mm256_set1_epi32(unsafe { block.cast::<i32>().add(index).read_unaligned() })
}
