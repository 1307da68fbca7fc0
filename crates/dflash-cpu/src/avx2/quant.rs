use std::arch::x86_64::*;

use super::byte::byte_sums;
use super::nibble::nibble_sums;
use super::scale::{Widen, pair};
use crate::inputs::Inputs;
use crate::pack::{Kind, LANES};
use crate::quantize::{QuantBlock, WideBlock};
use crate::tile::{Products, Tile};

/// What the compiler should know of a quantised kind.
pub(super) trait Quant {
    /// Type of scale and minimum.
    type Scale: Widen;
    /// Quantised activations.
    type Block: Block;
    /// Whether there is a minimum.
    const MIN: bool;
    /// Added to a stored element.
    const ZERO: i32;
}

/// `scale * (q - 8)`.
pub(super) struct Nibble;
/// `scale * q`.
pub(super) struct Byte;
/// `scale * q + min`, four bits.
pub(super) struct AffineNibble<S>(S);
/// `scale * (q + 128) + min`, eight bits.
pub(super) struct AffineByte<S>(S);

impl Quant for Nibble {
    type Scale = super::scale::Half;
    type Block = QuantBlock;
    const MIN: bool = false;
    const ZERO: i32 = -8;
}

impl Quant for Byte {
    type Scale = super::scale::Half;
    type Block = WideBlock;
    const MIN: bool = false;
    const ZERO: i32 = 0;
}

impl<S: Widen> Quant for AffineNibble<S> {
    type Scale = S;
    type Block = QuantBlock;
    const MIN: bool = true;
    const ZERO: i32 = 0;
}

impl<S: Widen> Quant for AffineByte<S> {
    type Scale = S;
    type Block = WideBlock;
    const MIN: bool = true;
    const ZERO: i32 = 128;
}

/// Quantised activations, and how weights are multiplied with them.
pub(super) trait Block: Sized {
    /// Bytes of 32 inputs of a group of weights.
    const WEIGHTS: usize;

    /// All blocks of the inputs.
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self];

    /// Scale, its product with the sum, and the sum.
    fn factors(&self) -> (f32, f32, i32);

    /// Integer sums of products.
    ///
    /// # Safety
    /// `weights` points to [`Block::WEIGHTS`] bytes, `rows` to blocks, and the machine has AVX2.
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const Self; R]) -> [[__m256i; 2]; R];
}

impl Block for QuantBlock {
    const WEIGHTS: usize = 16 * LANES;

    #[inline(always)]
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self] {
        inputs.blocks
    }

    #[inline(always)]
    fn factors(&self) -> (f32, f32, i32) {
        (self.scale, self.sum, self.total)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const Self; R]) -> [[__m256i; 2]; R] {
        // SAFETY: the caller's promise.
        unsafe { nibble_sums(weights, rows) }
    }
}

impl Block for WideBlock {
    const WEIGHTS: usize = 32 * LANES;

    #[inline(always)]
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self] {
        inputs.wide
    }

    #[inline(always)]
    fn factors(&self) -> (f32, f32, i32) {
        (self.scale, self.sum, self.total)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const Self; R]) -> [[__m256i; 2]; R] {
        // SAFETY: the caller's promise.
        unsafe { byte_sums(weights, rows) }
    }
}

/// A group of quantised weights against `R` input rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<Q: Quant, const R: usize>(
    kind: Kind,
    weights: &[u8],
    inputs: &Inputs<'_>,
    tile: &Tile,
    out: &mut Products,
) {
    let (row_blocks, unit_blocks) = (inputs.row_blocks(), kind.unit_blocks());
    let unit = kind.unit_bytes() * LANES;
    let scales = Q::Scale::BYTES * LANES * (1 + usize::from(Q::MIN));
    assert!(unit == unit_blocks * Q::Block::WEIGHTS + scales);
    let (units, x) =
        (row_blocks / unit_blocks, &Q::Block::all(inputs)[tile.rows.start * row_blocks..][..R * row_blocks]);
    let mut position = weights[..units * unit].as_ptr();
    let mut rows = [x.as_ptr(); R];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = row.wrapping_add(r * row_blocks);
    }
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for _ in 0..units {
        if tile.fetch_next {
            super::fetch(position, units * unit, unit);
        }
        // SAFETY: `units` units lie in `weights` and as many times `unit_blocks` blocks in each row.
        unsafe { add_unit::<Q, R>(unit_blocks, position, rows, &mut sums) };
        position = position.wrapping_add(unit);
        for row in &mut rows {
            *row = row.wrapping_add(unit_blocks);
        }
    }
    super::store(&sums, out);
}

/// # Safety
/// `unit` points to a whole unit, every one of `rows` to `blocks` blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_unit<Q: Quant, const R: usize>(
    blocks: usize,
    mut unit: *const u8,
    mut rows: [*const Q::Block; R],
    sums: &mut [[__m256; 2]; R],
) {
    let width = Q::Scale::BYTES * LANES;
    // SAFETY: a unit begins with its scales.
    let scales = unsafe { pair::<Q::Scale>(unit) };
    unit = unit.wrapping_add(width);
    let mut mins = [_mm256_setzero_ps(); 2];
    if Q::MIN {
        // SAFETY: minimums follow the scales.
        mins = unsafe { pair::<Q::Scale>(unit) };
        unit = unit.wrapping_add(width);
    }
    for _ in 0..blocks {
        // SAFETY: the pointers stand at a block of their unit and row.
        let integers = unsafe { Q::Block::sums(unit, rows) };
        for r in 0..R {
            // SAFETY: as above.
            let factors = unsafe { (*rows[r]).factors() };
            for half in 0..2 {
                let sum = &mut sums[r][half];
                *sum = add_block::<Q>(*sum, integers[r][half], scales[half], mins[half], factors);
            }
            rows[r] = rows[r].wrapping_add(1);
        }
        unit = unit.wrapping_add(Q::Block::WEIGHTS);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_block<Q: Quant>(
    sum: __m256,
    integer: __m256i,
    scale: __m256,
    min: __m256,
    (x_scale, x_sum, x_total): (f32, f32, i32),
) -> __m256 {
    let integer = match Q::ZERO {
        0 => integer,
        zero => _mm256_add_epi32(integer, _mm256_set1_epi32(zero * x_total)),
    };
    let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x_scale));
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), scale, sum);
    if Q::MIN { _mm256_fmadd_ps(min, _mm256_set1_ps(x_sum), sum) } else { sum }
}
