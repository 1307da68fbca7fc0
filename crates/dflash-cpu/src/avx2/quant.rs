use std::arch::x86_64::*;

use crate::inputs::Inputs;
use crate::pack::{Kind, LANES};
use crate::quantize::{QuantBlock, WideBlock};
use crate::tile::{Products, Tile};

/// Outputs of a group for each of `R` input rows.
pub(super) type Sums<const R: usize> = [[__m256; 2]; R];

/// A quantised kind: how its units are read and added.
pub(super) trait Quant {
    /// Quantised activations.
    type Block: Activations;
    /// Scale and minimum of a unit.
    type Head: Copy;
    /// Blocks of a unit.
    const BLOCKS: usize;
    /// Bytes of the head of a unit of a group.
    const HEAD_BYTES: usize;
    /// Bytes of a block of a group.
    const BLOCK_BYTES: usize;

    /// Reads the head of a unit.
    ///
    /// # Safety
    /// `unit` points to [`Quant::HEAD_BYTES`] bytes, and the machine has AVX2.
    unsafe fn head(unit: *const u8) -> Self::Head;

    /// Adds the products of a block.
    ///
    /// # Safety
    /// `block` points to [`Quant::BLOCK_BYTES`] bytes, `rows` to blocks, and the machine has AVX2.
    unsafe fn add_block<const R: usize>(
        head: Self::Head,
        block: *const u8,
        rows: [*const Self::Block; R],
        sums: &mut Sums<R>,
    );
}

/// Elements of a block without their scales.
pub(super) trait Elements {
    /// Quantised activations.
    type Block: Activations;
    /// Bytes of a block of a group.
    const BYTES: usize;

    /// Integer sums of products.
    ///
    /// # Safety
    /// `weights` points to [`Elements::BYTES`] bytes, `rows` to blocks, and the machine has AVX2.
    unsafe fn sums<const R: usize>(weights: *const u8, rows: [*const Self::Block; R]) -> [[__m256i; 2]; R];
}

/// Quantised activations of 32 inputs.
pub(super) trait Activations: Sized {
    /// All blocks of the inputs.
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self];

    /// Scale, its product with the sum, and the sums of both halves in one number.
    fn factors(&self) -> (f32, f32, i32);
}

#[inline(always)]
fn pair([first, last]: [i16; 2]) -> i32 {
    i32::from(last) << 16 | i32::from(first as u16)
}

impl Activations for QuantBlock {
    #[inline(always)]
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self] {
        inputs.blocks
    }

    #[inline(always)]
    fn factors(&self) -> (f32, f32, i32) {
        (self.scale, self.sum, pair(self.totals))
    }
}

impl Activations for WideBlock {
    #[inline(always)]
    fn all<'a>(inputs: &Inputs<'a>) -> &'a [Self] {
        inputs.wide
    }

    #[inline(always)]
    fn factors(&self) -> (f32, f32, i32) {
        (self.scale, self.sum, pair(self.totals))
    }
}

/// A group of quantised weights against `R` input rows. All that it calls is compiled into it: left to itself
/// the compiler shares the larger functions between kinds, and calls them for every block.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<Q: Quant, const R: usize>(
    kind: Kind,
    weights: &[u8],
    inputs: &Inputs<'_>,
    tile: &Tile,
    out: &mut Products,
) {
    let row_blocks = inputs.row_blocks();
    let (units, unit) = (row_blocks / Q::BLOCKS, Q::HEAD_BYTES + Q::BLOCKS * Q::BLOCK_BYTES);
    assert!(kind.unit_bytes() * LANES == unit && kind.unit_blocks() == Q::BLOCKS);
    let (weights, x) =
        (&weights[..units * unit], &Q::Block::all(inputs)[tile.rows.start * row_blocks..][..R * row_blocks]);
    let mut position = weights.as_ptr();
    let mut rows = [x.as_ptr(); R];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = row.wrapping_add(r * row_blocks);
    }
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for _ in 0..units {
        if tile.fetch_next {
            super::fetch(position, weights.len(), Q::HEAD_BYTES);
        }
        // SAFETY: `units` units lie in `weights`.
        let head = unsafe { Q::head(position) };
        position = position.wrapping_add(Q::HEAD_BYTES);
        for _ in 0..Q::BLOCKS {
            if tile.fetch_next {
                super::fetch(position, weights.len(), Q::BLOCK_BYTES);
            }
            // SAFETY: as many blocks as all units have lie in each row, and behind the head in each unit.
            unsafe { Q::add_block::<R>(head, position, rows, &mut sums) };
            position = position.wrapping_add(Q::BLOCK_BYTES);
            for row in &mut rows {
                *row = row.wrapping_add(1);
            }
        }
    }
    super::store(&sums, out);
}

/// Adds the scaled integer sums of a block, then its minimum.
///
/// # Safety
/// The machine has AVX2 and FMA.
#[inline(always)]
pub(super) unsafe fn add_scaled<const MIN: bool, const ZERO: i16>(
    sum: __m256,
    mut integer: __m256i,
    scale: __m256,
    min: __m256,
    (x_scale, x_sum, x_totals): (f32, f32, i32),
) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        if ZERO != 0 {
            let zero = _mm256_madd_epi16(_mm256_set1_epi32(x_totals), _mm256_set1_epi16(ZERO));
            integer = _mm256_add_epi32(integer, zero);
        }
        let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x_scale));
        let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), scale, sum);
        if MIN { _mm256_fmadd_ps(min, _mm256_set1_ps(x_sum), sum) } else { sum }
    }
}
