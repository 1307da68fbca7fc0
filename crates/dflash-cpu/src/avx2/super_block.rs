//! Super-blocks: units whose blocks have integer scales of their own.

use std::arch::x86_64::*;

use super::flat;
use super::planes::{HalfFactors, Planes, wide_sums};
use super::quant::{Activations, Elements, Quant, Sums};
use super::scale::{Half, pair};
use crate::pack::LANES;
use crate::quantize::QuantBlock;

/// Blocks of a unit.
const BLOCKS: usize = 8;

/// Bytes of an f16 of each lane, and of the factors at the head of a block.
const PAIRS: usize = 2 * LANES;

/// `d * s * q - m * n` with one scale and minimum a block.
pub(super) struct Whole<const BITS: u8>;

/// `d * s * (q + ZERO)` with two scales a block, or `d * s * q - m * n` with two of both.
pub(super) struct Halves<const BITS: u8, const MIN: bool, const ZERO: i16>;

/// `d` and `m` of a unit.
#[derive(Clone, Copy)]
pub(super) struct Head {
    d: [__m256; 2],
    m: [__m256; 2],
}

/// # Safety
/// `unit` begins with `d` of each lane, and `m` if `min`.
#[inline(always)]
unsafe fn head(unit: *const u8, min: bool) -> Head {
    // SAFETY: the caller's promise.
    unsafe {
        Head {
            d: pair::<Half>(unit),
            m: if min { pair::<Half>(unit.add(PAIRS)) } else { [_mm256_setzero_ps(); 2] },
        }
    }
}

impl<const BITS: u8> Quant for Whole<BITS> {
    type Block = QuantBlock;
    type Head = Head;
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = 2 * PAIRS;
    const BLOCK_BYTES: usize = PAIRS + Planes::<BITS>::BYTES;

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> Head {
        // SAFETY: the caller's promise.
        unsafe { head(unit, true) }
    }

    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        Head { d, m }: Head,
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut Sums<R>,
    ) {
        let (mut scales, mut mins) = (d, m);
        // SAFETY: a block begins with two bytes for each of sixteen lanes, then its elements.
        unsafe {
            for half in 0..2 {
                let factors = _mm256_cvtepu16_epi32(_mm_loadu_si128(block.cast::<__m128i>().add(half)));
                let (s, n) =
                    (_mm256_and_si256(factors, _mm256_set1_epi32(255)), _mm256_srli_epi32::<8>(factors));
                let negated = _mm256_xor_ps(m[half], _mm256_set1_ps(-0.0));
                // Exact: eleven bits by six.
                scales[half] = _mm256_mul_ps(d[half], _mm256_cvtepi32_ps(s));
                mins[half] = _mm256_mul_ps(negated, _mm256_cvtepi32_ps(n));
            }
            flat::add::<Planes<BITS>, true, 0, R>(scales, mins, block.add(PAIRS), rows, sums);
        }
    }
}

impl<const BITS: u8, const MIN: bool, const ZERO: i16> Quant for Halves<BITS, MIN, ZERO> {
    type Block = QuantBlock;
    type Head = Head;
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = PAIRS * (1 + MIN as usize);
    const BLOCK_BYTES: usize = PAIRS + Planes::<BITS>::BYTES;

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> Head {
        // SAFETY: the caller's promise.
        unsafe { head(unit, MIN) }
    }

    /// The scaled sum of a block is an exact integer, below `2^24` in magnitude: at most
    /// `32 * 32 * 127 * 128`, and below `2^25` before the zero.
    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        Head { d, m }: Head,
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut Sums<R>,
    ) {
        const { assert!(BITS != 4, "its steps take both halves at once") };
        // SAFETY: a block begins with two bytes for each of sixteen lanes, then its elements.
        unsafe {
            let (scales, offsets) = factors::<MIN, ZERO>(block);
            let integers = wide_sums::<BITS, R>(block.add(PAIRS), rows, scales);
            for r in 0..R {
                let (x_scale, _, x_totals) = (*rows[r]).factors();
                let (x_scale, x_totals) = (_mm256_set1_ps(x_scale), _mm256_set1_epi32(x_totals));
                for half in 0..2 {
                    let (integer, sum) = (integers[r][half], &mut sums[r][half]);
                    let offset = _mm256_madd_epi16(x_totals, offsets[half]);
                    let integer = if MIN { integer } else { _mm256_add_epi32(integer, offset) };
                    *sum =
                        _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), _mm256_mul_ps(d[half], x_scale), *sum);
                    if MIN {
                        let m = _mm256_mul_ps(m[half], x_scale);
                        *sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(offset), m, *sum);
                    }
                }
            }
        }
    }
}

/// The scales of both halves of a block, and what the sums of the activations of both halves are multiplied
/// with: the minimums, or the scales times the zero.
///
/// # Safety
/// `block` begins with two bytes for each of sixteen lanes.
#[inline(always)]
unsafe fn factors<const MIN: bool, const ZERO: i16>(block: *const u8) -> (HalfFactors, [__m256i; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = _mm256_setzero_si256();
        let (mut scales, mut offsets) = ([[zero; 2]; 2], [zero; 2]);
        for half in 0..2 {
            let bytes = _mm_loadu_si128(block.cast::<__m128i>().add(half));
            let pairs = if MIN {
                let both = _mm256_cvtepu8_epi16(bytes);
                offsets[half] = _mm256_srli_epi16::<4>(both);
                _mm256_and_si256(both, _mm256_set1_epi16(15))
            } else {
                let pairs = _mm256_cvtepi8_epi16(bytes);
                // At most 128 * 32: no overflow.
                offsets[half] = _mm256_mullo_epi16(pairs, _mm256_set1_epi16(ZERO));
                pairs
            };
            scales[0][half] = _mm256_blend_epi16::<0b10101010>(pairs, _mm256_slli_epi32::<16>(pairs));
            scales[1][half] = _mm256_blend_epi16::<0b01010101>(pairs, _mm256_srli_epi32::<16>(pairs));
        }
        (scales, offsets)
    }
}
