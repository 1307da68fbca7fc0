use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::quant::{Activations, Elements, Quant, Sums, add_scaled};
use super::scale::{Widen, pair};
use crate::pack::LANES;

/// `scale * (q + ZERO)`, plus a minimum if `MIN`; `BLOCKS` blocks share them.
pub(super) struct Flat<E, S, const MIN: bool, const ZERO: i16, const BLOCKS: usize>(PhantomData<(E, S)>);

impl<E: Elements, S: Widen, const MIN: bool, const ZERO: i16, const BLOCKS: usize> Quant
    for Flat<E, S, MIN, ZERO, BLOCKS>
{
    type Block = E::Block;
    type Head = [[__m256; 2]; 2];
    const BLOCKS: usize = BLOCKS;
    const HEAD_BYTES: usize = S::BYTES * LANES * (1 + MIN as usize);
    const BLOCK_BYTES: usize = E::BYTES;

    #[inline(always)]
    unsafe fn head(unit: *const u8) -> Self::Head {
        // SAFETY: a unit begins with its scales, and minimums follow them.
        unsafe {
            [
                pair::<S>(unit),
                if MIN { pair::<S>(unit.add(S::BYTES * LANES)) } else { [_mm256_setzero_ps(); 2] },
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_block<const R: usize>(
        [scales, mins]: Self::Head,
        block: *const u8,
        rows: [*const Self::Block; R],
        sums: &mut Sums<R>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { add::<E, MIN, ZERO, R>(scales, mins, block, rows, sums) };
    }
}

/// Adds a block of elements with one scale and minimum a lane.
///
/// # Safety
/// As [`Elements::sums`].
#[inline(always)]
pub(super) unsafe fn add<E: Elements, const MIN: bool, const ZERO: i16, const R: usize>(
    scales: [__m256; 2],
    mins: [__m256; 2],
    elements: *const u8,
    rows: [*const E::Block; R],
    sums: &mut Sums<R>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let integers = E::sums(elements, rows);
        for r in 0..R {
            let factors = (*rows[r]).factors();
            for half in 0..2 {
                let sum = &mut sums[r][half];
                *sum = add_scaled::<MIN, ZERO>(*sum, integers[r][half], scales[half], mins[half], factors);
            }
        }
    }
}
