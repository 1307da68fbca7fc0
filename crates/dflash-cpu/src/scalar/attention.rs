//! Attention of queries to one block, the bit oracle.

use half::f16;

use crate::attention::kernel::{KEYS, Later, Scoring, State, Visit};
use crate::math;

/// [`crate::attention::kernel::block`].
pub(crate) fn block(visit: Visit<'_>, state: &mut State<'_>) {
    let Visit { how, kv, q, queries, .. } = visit;
    for query in queries {
        let mut p = scores(how, kv.keys, &q[query.input..][..how.dim]);
        let max = softmax(&mut p, query.mask);
        let sum = sum(&p);
        let [a, b] = factors(state, query.slot, max, sum);
        let out = &mut state.out[query.slot * how.dim..][..how.dim];
        values(kv.values, &p, query.mask, out, a, b);
    }
}

/// [`crate::attention::kernel::join`].
pub(crate) fn join(state: &mut State<'_>, later: Later<'_>, dim: usize) {
    let parts = later.max.iter().zip(later.sum).zip(later.out.chunks_exact(dim));
    for (slot, ((&max, &sum), out)) in (0..).zip(parts).filter(|(_, ((_, sum), _))| **sum != 0.0) {
        let [a, b] = factors(state, slot, max, sum);
        blend(&mut state.out[slot * dim..][..dim], out, a, b);
    }
}

/// Joins maximum and sum; gives the factors of the outputs.
fn factors(state: &mut State<'_>, slot: usize, max: f32, sum: f32) -> [f32; 2] {
    let before = state.max[slot];
    let after = if max > before { max } else { before };
    let (a, b) = (math::exp(before - after), math::exp(max - after));
    state.max[slot] = after;
    state.sum[slot] = state.sum[slot].mul_add(a, sum * b);
    [a, b]
}

fn blend(total: &mut [f32], part: &[f32], a: f32, b: f32) {
    total.iter_mut().zip(part).for_each(|(total, part)| *total = total.mul_add(a, part * b));
}

fn scores(how: Scoring, keys: &[f16], q: &[f32]) -> [f32; KEYS] {
    let mut scores = [0.0_f32; KEYS];
    for (&q, keys) in q.iter().zip(keys.chunks_exact(KEYS)) {
        scores.iter_mut().zip(keys).for_each(|(score, key)| *score = q.mul_add(key.to_f32(), *score));
    }
    let cap = |score: f32, cap: f32| cap * math::tanh(score / cap);
    scores.map(|score| how.softcap.map_or(score * how.scale, |c| cap(score * how.scale, c)))
}

/// Replaces visible scores by `exp(s - max)` and hidden ones by 0; gives the maximum.
fn softmax(scores: &mut [f32; KEYS], mask: u64) -> f32 {
    for (key, score) in scores.iter_mut().enumerate() {
        if mask >> key & 1 == 0 {
            *score = f32::NEG_INFINITY;
        }
    }
    let max = tree(scores, |a, b| if a > b { a } else { b });
    scores.iter_mut().for_each(|score| *score = math::exp(*score - max));
    max
}

fn sum(p: &[f32; KEYS]) -> f32 {
    tree(p, |a, b| a + b)
}

/// Eight lanes in order, then lanes 4 apart, 2 apart, 1 apart.
fn tree(values: &[f32; KEYS], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes: [f32; 8] = std::array::from_fn(|lane| values[lane]);
    for chunk in values[8..].chunks_exact(8) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &value)| *lane = combine(*lane, value));
    }
    let four: [f32; 4] = std::array::from_fn(|lane| combine(lanes[lane], lanes[lane + 4]));
    combine(combine(four[0], four[2]), combine(four[1], four[3]))
}

fn values(values: &[f16], p: &[f32; KEYS], mask: u64, out: &mut [f32], a: f32, b: f32) {
    let dim = out.len();
    for (first, out) in (0..).step_by(8).zip(out.chunks_mut(8)) {
        let mut part = [0.0_f32; 8];
        for key in (0..KEYS).filter(|key| mask >> key & 1 == 1) {
            let row = &values[key * dim + first..][..out.len()];
            part.iter_mut().zip(row).for_each(|(part, value)| *part = p[key].mul_add(value.to_f32(), *part));
        }
        blend(out, &part[..out.len()], a, b);
    }
}
