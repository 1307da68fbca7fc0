//! Super-blocks: units whose blocks have integer scales of their own.

use std::arch::x86_64::*;

use super::block::add_quads;
use super::scale::Widen16;
use super::unit::{Unit, add, element_bytes};
use crate::avx2::scale::Half;
use crate::pack::LANES;
use crate::pack::planes::QUADS;
use crate::quantize::QuantBlock;

/// Blocks of a unit.
const BLOCKS: usize = 8;

/// Bytes of an f16 of each lane, and of the factors at the head of a block.
const PAIRS: usize = 2 * LANES;

/// `d * s * q - m * n` with one scale and minimum a block.
pub(super) struct Whole<const BITS: u8>;

/// `d * s * (q + ZERO)` with two scales a block, or `d * s * q - m * n` with two of both.
pub(super) struct Halves<const BITS: u8, const MIN: bool, const ZERO: i32>;

/// `d` and `m` of a unit.
///
/// # Safety
/// `unit` begins with `d` of each lane, and `m` if `min`.
#[inline(always)]
unsafe fn head(unit: *const u8, min: bool) -> [__m512; 2] {
    // SAFETY: the caller's promise.
    unsafe { [Half::widen16(unit), if min { Half::widen16(unit.add(PAIRS)) } else { _mm512_setzero_ps() }] }
}

impl<const BITS: u8> Unit for Whole<BITS> {
    type Head = [__m512; 2];
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = 2 * PAIRS;
    const BLOCK_BYTES: usize = PAIRS + element_bytes(BITS);

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        unsafe { head(unit, true) }
    }

    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        [d, m]: [__m512; 2],
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut [__m512; R],
    ) {
        // SAFETY: a block begins with two bytes for each of sixteen lanes, then its elements.
        unsafe {
            let factors = _mm512_cvtepu16_epi32(_mm256_loadu_si256(block.cast()));
            let s = _mm512_and_si512(factors, _mm512_set1_epi32(255));
            let n = _mm512_srli_epi32::<8>(factors);
            let negated = _mm512_mul_ps(m, _mm512_set1_ps(-1.0));
            // Exact: eleven bits by six.
            let scale = _mm512_mul_ps(d, _mm512_cvtepi32_ps(s));
            let min = _mm512_mul_ps(negated, _mm512_cvtepi32_ps(n));
            add::<BITS, true, R>(0, [scale, min], block.add(PAIRS), rows, sums);
        }
    }
}

impl<const BITS: u8, const MIN: bool, const ZERO: i32> Unit for Halves<BITS, MIN, ZERO> {
    type Head = [__m512; 2];
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = PAIRS * (1 + MIN as usize);
    const BLOCK_BYTES: usize = PAIRS + element_bytes(BITS);

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        unsafe { head(unit, MIN) }
    }

    /// The scaled sum of a block is an exact integer, as in [`crate::avx2`].
    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        [d, m]: [__m512; 2],
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut [__m512; R],
    ) {
        // SAFETY: a block begins with two bytes for each of sixteen lanes, then its elements.
        unsafe {
            let (scales, mins) = factors::<MIN>(block);
            let elements = block.add(PAIRS);
            let mut halves = [[_mm512_setzero_si512(); R]; 2];
            add_quads::<BITS, 0, { QUADS / 2 }, R>(elements, rows, &mut halves[0]);
            add_quads::<BITS, { QUADS / 2 }, QUADS, R>(elements, rows, &mut halves[1]);
            for r in 0..R {
                let QuantBlock { scale: x_scale, totals, .. } = *rows[r];
                let x_scale = _mm512_set1_ps(x_scale);
                let totals = [i32::from(totals[0]), i32::from(totals[1])];
                let first = _mm512_add_epi32(halves[0][r], _mm512_set1_epi32(ZERO * totals[0]));
                let last = _mm512_add_epi32(halves[1][r], _mm512_set1_epi32(ZERO * totals[1]));
                let integer = dot(scales, [first, last]);
                sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), _mm512_mul_ps(d, x_scale), sums[r]);
                if MIN {
                    let totals = [_mm512_set1_epi32(totals[0]), _mm512_set1_epi32(totals[1])];
                    let offset = dot(mins, totals);
                    let m = _mm512_mul_ps(m, x_scale);
                    sums[r] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(offset), m, sums[r]);
                }
            }
        }
    }
}

/// # Safety
/// The machine has AVX-512.
#[inline(always)]
unsafe fn dot(a: [__m512i; 2], b: [__m512i; 2]) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_add_epi32(_mm512_mullo_epi32(a[0], b[0]), _mm512_mullo_epi32(a[1], b[1])) }
}

/// Scales and minimums of both halves of a block.
///
/// # Safety
/// `block` begins with two bytes for each of sixteen lanes.
#[inline(always)]
unsafe fn factors<const MIN: bool>(block: *const u8) -> ([__m512i; 2], [__m512i; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        let pairs = _mm512_cvtepu16_epi32(_mm256_loadu_si256(block.cast()));
        if !MIN {
            let first = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(pairs));
            let last = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<16>(pairs));
            return ([first, last], [_mm512_setzero_si512(); 2]);
        }
        let (mask, last) = (_mm512_set1_epi32(15), _mm512_srli_epi32::<8>(pairs));
        let scales = [_mm512_and_si512(pairs, mask), _mm512_and_si512(last, mask)];
        let first = _mm512_srli_epi32::<4>(pairs);
        let mins = [_mm512_and_si512(first, mask), _mm512_srli_epi32::<12>(pairs)];
        (scales, mins)
    }
}
