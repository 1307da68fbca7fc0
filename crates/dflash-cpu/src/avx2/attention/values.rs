use std::ops::Range;

use super::multiply::multiply;
use super::tile::Tile;
use super::vector::Vector;
use crate::attention::kernel::KEYS;

/// Sums `p * value` over the visible keys in order and joins it to the outputs with the factors `join`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn values<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    p: &[[f32; KEYS]; Q],
    join: &[[f32; 2]],
    out: &mut [f32],
) {
    let (dim, mut column) = (tile.how.dim, 0);
    // SAFETY: the caller's promise.
    unsafe {
        while column + N * V::LANES <= dim {
            add::<V, Q, N>(tile, column, &columns(tile, p, column), join, out);
            column += N * V::LANES;
        }
        while column < dim {
            add::<V, Q, 1>(tile, column, &columns(tile, p, column), join, out);
            column += V::LANES;
        }
    }
}

/// Sums `p * value` of the `N` vectors from `column` on over the visible keys in order.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn columns<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    p: &[[f32; KEYS]; Q],
    column: usize,
) -> [[V; N]; Q] {
    let same = tile.queries.iter().all(|query| query.mask == tile.seen);
    // SAFETY: the caller's promise, here and below.
    let mut sums = [[unsafe { V::zero() }; N]; Q];
    let mut left = tile.seen;
    while left != 0 {
        let first = left.trailing_zeros() as usize;
        let end = first + (left >> first).trailing_ones() as usize;
        left &= u64::MAX.checked_shl(end as u32).unwrap_or(0);
        match same {
            // SAFETY: as above.
            true => unsafe { keys_same(tile, p, column, first..end, &mut sums) },
            // SAFETY: as above.
            false => unsafe { keys_apart(tile, p, column, first..end, &mut sums) },
        }
    }
    sums
}

/// [`columns`] over the neighbouring keys `keys`, which all queries see.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn keys_same<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    p: &[[f32; KEYS]; Q],
    column: usize,
    keys: Range<usize>,
    sums: &mut [[V; N]; Q],
) {
    let (dim, values) = (tile.how.dim, tile.kv.values);
    assert!(column + N * V::LANES <= dim && values.len() == dim * KEYS && keys.end <= KEYS, "columns");
    let rows = p.each_ref().map(|p| p.as_ptr());
    let mut local = *sums;
    for key in keys {
        let at = key * dim + column;
        // SAFETY: the caller's promise. The columns lie within row `key` of the values, as asserted above.
        unsafe {
            let (numbers, next) = (values.as_ptr().add(at), tile.next.values.as_ptr().wrapping_add(at));
            multiply(&mut local, numbers, next, rows.map(|row| row.add(key)));
        }
    }
    *sums = local;
}

/// [`columns`] over the neighbouring keys `keys`, of which each query sees its own.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn keys_apart<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    p: &[[f32; KEYS]; Q],
    column: usize,
    keys: Range<usize>,
    sums: &mut [[V; N]; Q],
) {
    let (dim, values) = (tile.how.dim, tile.kv.values);
    assert!(column + N * V::LANES <= dim && values.len() == dim * KEYS && keys.end <= KEYS, "columns");
    for key in keys {
        // SAFETY: the caller's promise. The columns lie within row `key` of the values, as asserted above.
        unsafe {
            let mut lanes = [V::zero(); N];
            for (index, lanes) in lanes.iter_mut().enumerate() {
                *lanes = V::widen(values.as_ptr().add(key * dim + column + index * V::LANES));
            }
            for ((sums, p), query) in sums.iter_mut().zip(p).zip(tile.queries) {
                if query.mask >> key & 1 == 1 {
                    let p = V::broadcast(p[key]);
                    for (sum, &lanes) in sums.iter_mut().zip(&lanes) {
                        *sum = p.multiply_add(lanes, *sum);
                    }
                }
            }
        }
    }
}

/// Joins the sums of the `N` vectors from `column` on to the outputs.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn add<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    column: usize,
    sums: &[[V; N]; Q],
    join: &[[f32; 2]],
    out: &mut [f32],
) {
    for ((sums, &[a, b]), query) in sums.iter().zip(join).zip(tile.queries) {
        let total = &mut out[query.slot * tile.how.dim + column..][..N * V::LANES];
        // SAFETY: the caller's promise; the chunks are vectors.
        unsafe {
            let (a, b) = (V::broadcast(a), V::broadcast(b));
            for (total, &sum) in total.chunks_exact_mut(V::LANES).zip(sums) {
                blend(total.as_mut_ptr(), sum, a, b);
            }
        }
    }
}

/// `total = total*a + part*b`.
///
/// # Safety
/// A vector can be read and written at `total`, and the machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn blend<V: Vector>(total: *mut f32, part: V, a: V, b: V) {
    // SAFETY: the caller's promise.
    unsafe { V::load(total).multiply_add(a, part.multiply(b)).store(total) };
}
