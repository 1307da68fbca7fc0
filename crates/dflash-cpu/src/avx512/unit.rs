use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::block;
use super::scale::Widen16;
use crate::avx2::fetch;
use crate::inputs::Inputs;
use crate::pack::{BLOCK, Kind, LANES};
use crate::quantize::QuantBlock;
use crate::tile::{Products, Tile};

/// A quantised kind: how its units are read and added.
pub(super) trait Unit {
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
    /// `unit` points to [`Unit::HEAD_BYTES`] bytes, and the machine has AVX-512.
    unsafe fn head(unit: *const u8) -> Self::Head;

    /// Adds the products of a block.
    ///
    /// # Safety
    /// `block` points to [`Unit::BLOCK_BYTES`] bytes, `rows` to blocks, and the machine has AVX-512 with VNNI.
    unsafe fn add_block<const R: usize>(
        head: Self::Head,
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut [__m512; R],
    );
}

/// Bytes of the elements of a block of a group.
pub(super) const fn element_bytes(bits: u8) -> usize {
    BLOCK / 8 * bits as usize * LANES
}

/// A group of quantised weights against `R` input rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vnni")]
pub(super) fn multiply<U: Unit, const R: usize>(
    kind: Kind,
    weights: &[u8],
    inputs: &Inputs<'_>,
    tile: &Tile,
    out: &mut Products,
) {
    let row_blocks = inputs.row_blocks();
    let (units, unit) = (row_blocks / U::BLOCKS, U::HEAD_BYTES + U::BLOCKS * U::BLOCK_BYTES);
    assert!(kind.unit_bytes() * LANES == unit && kind.unit_blocks() == U::BLOCKS);
    let weights = &weights[..units * unit];
    let x = &inputs.blocks[tile.rows.start * row_blocks..][..R * row_blocks];
    let mut position = weights.as_ptr();
    let mut rows: [*const QuantBlock; R] = std::array::from_fn(|r| x.as_ptr().wrapping_add(r * row_blocks));
    let mut sums = [_mm512_setzero_ps(); R];
    for _ in 0..units {
        if tile.fetch_next {
            fetch(position, weights.len(), U::HEAD_BYTES);
        }
        // SAFETY: `units` units lie in `weights`.
        let head = unsafe { U::head(position) };
        position = position.wrapping_add(U::HEAD_BYTES);
        for _ in 0..U::BLOCKS {
            if tile.fetch_next {
                fetch(position, weights.len(), U::BLOCK_BYTES);
            }
            // SAFETY: as many blocks as all units have lie in each row, and behind the head in each unit.
            unsafe { U::add_block::<R>(head, position, rows, &mut sums) };
            position = position.wrapping_add(U::BLOCK_BYTES);
            for row in &mut rows {
                *row = row.wrapping_add(1);
            }
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        // SAFETY: an element of `out` is sixteen floats.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
    }
}

/// `scale * (q + ZERO)`, plus a minimum if `MIN`; `BLOCKS` blocks share them. `ZERO` is that of the stored
/// elements; those of eight bits are multiplied with 128 added.
pub(super) struct Flat<S, const BITS: u8, const MIN: bool, const ZERO: i32, const BLOCKS: usize>(
    PhantomData<S>,
);

impl<S: Widen16, const BITS: u8, const MIN: bool, const ZERO: i32, const BLOCKS: usize> Unit
    for Flat<S, BITS, MIN, ZERO, BLOCKS>
{
    type Head = [__m512; 2];
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = S::BYTES * LANES * (1 + MIN as usize);
    const BLOCK_BYTES: usize = element_bytes(BITS);

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> [__m512; 2] {
        // SAFETY: a unit begins with its scales, and minimums follow them.
        unsafe {
            [S::widen16(unit), if MIN { S::widen16(unit.add(S::BYTES * LANES)) } else { _mm512_setzero_ps() }]
        }
    }

    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        [scale, min]: [__m512; 2],
        block: *const u8,
        rows: [*const QuantBlock; R],
        sums: &mut [__m512; R],
    ) {
        let zero = if BITS == 8 { ZERO - 128 } else { ZERO };
        // SAFETY: the caller's promise.
        unsafe { add::<BITS, MIN, R>(zero, [scale, min], block, rows, sums) };
    }
}

/// Adds the scaled integer sums of a block, then its minimum, of one scale and minimum a lane.
///
/// # Safety
/// As [`Unit::add_block`].
#[inline(always)]
pub(super) unsafe fn add<const BITS: u8, const MIN: bool, const R: usize>(
    zero: i32,
    [scale, min]: [__m512; 2],
    elements: *const u8,
    rows: [*const QuantBlock; R],
    sums: &mut [__m512; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let integers = block::sums::<BITS, R>(elements, rows);
        for r in 0..R {
            let QuantBlock { scale: x_scale, sum: x_sum, totals, .. } = *rows[r];
            let mut integer = integers[r];
            if zero != 0 {
                let total = i32::from(totals[0]) + i32::from(totals[1]);
                integer = _mm512_add_epi32(integer, _mm512_set1_epi32(zero * total));
            }
            let factor = _mm512_mul_ps(scale, _mm512_set1_ps(x_scale));
            sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), factor, sums[r]);
            if MIN {
                sums[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_sum), sums[r]);
            }
        }
    }
}
