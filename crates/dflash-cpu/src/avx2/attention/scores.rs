use super::multiply::multiply;
use super::tile::Tile;
use super::vector::Vector;
use crate::attention::kernel::KEYS;

/// `p[i][key] = q_i · key` over the dimensions in order, for vectors of keys from the first visible one to the
/// last.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn products<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    p: &mut [[f32; KEYS]; Q],
) {
    let end = KEYS - tile.seen.leading_zeros() as usize;
    let mut first = tile.seen.trailing_zeros() as usize / V::LANES * V::LANES;
    // SAFETY: the caller's promise.
    unsafe {
        while first + (N - 1) * V::LANES < end && first + N * V::LANES <= KEYS {
            lanes::<V, Q, N>(tile, first, p);
            first += N * V::LANES;
        }
        while first < end {
            lanes::<V, Q, 1>(tile, first, p);
            first += V::LANES;
        }
    }
}

/// [`products`] of the `N` vectors from key `first` on.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn lanes<V: Vector, const Q: usize, const N: usize>(
    tile: &Tile<'_, Q>,
    first: usize,
    p: &mut [[f32; KEYS]; Q],
) {
    let dim = tile.how.dim;
    assert!(first + N * V::LANES <= KEYS && tile.kv.keys.len() == dim * KEYS, "lanes of a head");
    let mut rows = [std::ptr::null(); Q];
    for (row, query) in rows.iter_mut().zip(tile.queries) {
        *row = tile.q[query.input..][..dim].as_ptr();
    }
    // SAFETY: the caller's promise. Row `d` of the keys and element `d` of the rows exist, and the vectors end
    // within the 64 floats of `p`, as asserted above.
    unsafe {
        let mut sums = [[V::zero(); N]; Q];
        for d in 0..dim {
            let at = d * KEYS + first;
            let (keys, next) = (tile.kv.keys.as_ptr().add(at), tile.next.keys.as_ptr().wrapping_add(at));
            multiply(&mut sums, keys, next, rows.map(|row: *const f32| row.add(d)));
        }
        for (p, sums) in p.iter_mut().zip(&sums) {
            for (index, sum) in sums.iter().enumerate() {
                sum.store(p.as_mut_ptr().add(first + index * V::LANES));
            }
        }
    }
}
