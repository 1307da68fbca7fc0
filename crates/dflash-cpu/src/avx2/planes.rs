use std::arch::x86_64::*;

use super::quant::Elements;
use crate::pack::planes::{Field, fields, step};
use crate::pack::{BLOCK, LANES};
use crate::quantize::QuantBlock;

/// Unsigned elements of two to six bits, [`crate::pack::planes`].
pub(super) struct Planes<const BITS: u8>;

/// What sums are multiplied with: of the first and of the last sixteen inputs, two vectors of lanes each, in
/// both halves of a 32-bit lane.
pub(super) type HalfFactors = [[__m256i; 2]; 2];

/// Integer sums of a block, a lane per output row.
type Integers<const R: usize> = [[__m256i; 2]; R];

impl<const BITS: u8> Elements for Planes<BITS> {
    type Block = QuantBlock;
    const BYTES: usize = BLOCK / 8 * BITS as usize * LANES;

    #[inline(always)]
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const QuantBlock; R]) -> Integers<R> {
        // SAFETY: the caller's promise.
        unsafe {
            match BITS {
                2..=4 => narrow_sums::<BITS, R>(weights, rows),
                _ => wide_sums::<BITS, R>(weights, rows, [[_mm256_set1_epi16(1); 2]; 2]),
            }
        }
    }
}

/// Integer sums of a block. Products of up to four bits are added in 16 bits to the end, sixteen of them in
/// each: `15 * 127 * 16 = 30480` fits.
///
/// # Safety
/// As [`Elements::sums`].
#[inline(always)]
unsafe fn narrow_sums<const BITS: u8, const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
) -> Integers<R> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        let add = |sum, low, high| _mm256_add_epi16(_mm256_add_epi16(sum, low), high);
        add_step::<BITS, R, 0>(weights, rows, &mut sums, |_, sum, low, high| add(sum, low, high));
        add_step::<BITS, R, 1>(weights, rows, &mut sums, |_, sum, low, high| add(sum, low, high));
        add_step::<BITS, R, 2>(weights, rows, &mut sums, |_, sum, low, high| add(sum, low, high));
        add_step::<BITS, R, 3>(weights, rows, &mut sums, |_, sum, low, high| add(sum, low, high));
        for sum in sums.as_flattened_mut() {
            *sum = _mm256_madd_epi16(*sum, _mm256_set1_epi16(1));
        }
        sums
    }
}

/// Integer sums of a block, with a factor for each half of its inputs. Two products of six bits are added
/// twice in 16 bits, `63 * 127 * 4 = 32004` fits, then multiplied by their factor into 32. Steps of four bits
/// take both halves at once, which then need the same factor.
///
/// # Safety
/// As [`Elements::sums`].
#[inline(always)]
pub(super) unsafe fn wide_sums<const BITS: u8, const R: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
    factors: HalfFactors,
) -> Integers<R> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        let add = |factor, sum, low, high| {
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(low, high), factor))
        };
        let [first, last] = factors;
        add_step::<BITS, R, 0>(weights, rows, &mut sums, |half, sum, a, b| add(first[half], sum, a, b));
        add_step::<BITS, R, 1>(weights, rows, &mut sums, |half, sum, a, b| add(first[half], sum, a, b));
        add_step::<BITS, R, 2>(weights, rows, &mut sums, |half, sum, a, b| add(last[half], sum, a, b));
        add_step::<BITS, R, 3>(weights, rows, &mut sums, |half, sum, a, b| add(last[half], sum, a, b));
        sums
    }
}

/// Multiplies two quads of the elements, and adds pairs of products to the sums of every row.
///
/// # Safety
/// As [`Elements::sums`].
#[inline(always)]
unsafe fn add_step<const BITS: u8, const R: usize, const INDEX: usize>(
    weights: *const u8,
    rows: [*const QuantBlock; R],
    sums: &mut Integers<R>,
    add: impl Fn(usize, __m256i, __m256i, __m256i) -> __m256i,
) {
    let [first, second] = const { step(BITS, INDEX) };
    let [low, high] = const { step(BITS, INDEX) }.map(|quad| fields(BITS, quad));
    // SAFETY: the caller's promise.
    unsafe {
        let (low, high) = (elements(weights, low), elements(weights, high));
        for r in 0..R {
            let (x_low, x_high) = (quad(rows[r], first), quad(rows[r], second));
            for half in 0..2 {
                let low = _mm256_maddubs_epi16(low[half], x_low);
                let high = _mm256_maddubs_epi16(high[half], x_high);
                sums[r][half] = add(half, sums[r][half], low, high);
            }
        }
        super::hold(sums);
    }
}

/// The elements of a quad in sixteen lanes.
///
/// # Safety
/// The words of the fields lie in `weights`, of sixteen rows.
#[inline(always)]
unsafe fn elements(weights: *const u8, [base, more]: [Field; 2]) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let base = [take(weights, base, 0), take(weights, base, 1)];
        match more.mask {
            0 => base,
            _ => [
                _mm256_or_si256(base[0], take(weights, more, 0)),
                _mm256_or_si256(base[1], take(weights, more, 1)),
            ],
        }
    }
}

/// A field's bits of half the lanes, where they belong.
///
/// # Safety
/// As [`elements`].
#[inline(always)]
unsafe fn take(weights: *const u8, field: Field, half: usize) -> __m256i {
    let Field { word, from, to, mask } = field;
    // SAFETY: the caller's promise. Counts of shifts are constants wherever this is compiled into a step.
    unsafe {
        let word = _mm256_loadu_si256(weights.cast::<__m256i>().add(2 * word + half));
        let moved = match from.checked_sub(to) {
            Some(0) => word,
            Some(right) => _mm256_srl_epi16(word, _mm_cvtsi32_si128(right as i32)),
            None => _mm256_sll_epi16(word, _mm_cvtsi32_si128((to - from) as i32)),
        };
        _mm256_and_si256(moved, _mm256_set1_epi8(mask as i8))
    }
}

/// Activations of quad `index` of a block in every lane.
///
/// # Safety
/// `block` is readable and `index` below 8.
#[inline(always)]
unsafe fn quad(block: *const QuantBlock, index: usize) -> __m256i {
    // SAFETY: `q` begins the block, and quad `index` lies in its 32 bytes.
    unsafe { _mm256_set1_epi32(block.cast::<i32>().add(index).read_unaligned()) }
}
