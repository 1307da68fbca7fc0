use super::multiply::fetch_pages;
use super::scores::products;
use super::softmax::{factors, probabilities, scores};
use super::values::values;
use super::vector::Vector;
use crate::attention::kernel::{KEYS, KvHead, Query, Scoring, State, Visit};

/// Queries that share the loads of a block.
pub(super) struct Tile<'a, const Q: usize> {
    pub(super) how: Scoring,
    pub(super) kv: KvHead<'a>,
    /// Fetched meanwhile.
    pub(super) next: KvHead<'a>,
    /// Rows of all queries.
    pub(super) q: &'a [f32],
    pub(super) queries: &'a [Query; Q],
    /// Keys that any of them sees.
    pub(super) seen: u64,
}

/// Attends from queries to a block, tile by tile; the next head is fetched with the first one. Registers hold six
/// times `N` sums.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn tiles<V: Vector, const N: usize>(mut visit: Visit<'_>, state: &mut State<'_>) {
    let Visit { how, kv, next, .. } = visit;
    assert!(how.dim.is_multiple_of(V::LANES), "whole vectors");
    assert!(kv.keys.len() == how.dim * KEYS && kv.values.len() == how.dim * KEYS, "a head of a block");
    fetch_pages(next.keys);
    fetch_pages(next.values);
    while !visit.queries.is_empty() {
        // Seven and eight part better into 4 + 3 and 4 + 4 than into 6 + 1 and 6 + 2.
        let count = match visit.queries.len() {
            7 | 8 => 4,
            count => count.min(6),
        };
        let (tile, rest) = visit.queries.split_at(count);
        let own = Visit { queries: tile, ..visit };
        // SAFETY: the caller's promise.
        unsafe {
            match count {
                1 => attend::<V, 1, 4>(own, state),
                2 => attend::<V, 2, 4>(own, state),
                3 => attend::<V, 3, N>(own, state),
                4 => attend::<V, 4, N>(own, state),
                5 => attend::<V, 5, N>(own, state),
                _ => attend::<V, 6, N>(own, state),
            }
        }
        (visit.queries, visit.next) = (rest, kv);
    }
}

/// One tile; `N` vectors of scores and of outputs of each query are in registers at a time.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
unsafe fn attend<V: Vector, const Q: usize, const N: usize>(visit: Visit<'_>, state: &mut State<'_>) {
    let Visit { how, kv, next, q, queries } = visit;
    let queries: &[Query; Q] = queries.try_into().expect("a tile of Q queries");
    let seen = queries.iter().fold(0, |seen, query| seen | query.mask);
    let tile = Tile { how, kv, next, q, queries, seen };
    let mut p = [[0.0_f32; KEYS]; Q];
    let (mut slots, mut parts) = ([0; Q], [[0.0_f32; 2]; Q]);
    // SAFETY: the caller's promise; every instruction set has what the softmax needs.
    unsafe {
        // One step for all queries after the other: they depend on nothing of each other.
        products::<V, Q, N>(&tile, &mut p);
        for (index, query) in queries.iter().enumerate() {
            slots[index] = query.slot;
            parts[index][0] = scores(how, &mut p[index], query.mask);
        }
        for (p, [max, sum]) in p.iter_mut().zip(&mut parts) {
            *sum = probabilities::<V>(p, *max);
        }
        let join = factors(state, &slots, &parts);
        values::<V, Q, N>(&tile, &p, &join, state.out);
    }
}
