//! Attention of queries to one block with AVX2, FMA and F16C; the bits are those of
//! [`crate::scalar::attention`].
//!
//! Up to six queries share the loads of a block. In scores a lane is a key, in values a dimension, so
//! nothing is added across lanes but the sum of the probabilities.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::math::{exp, tanh};
use crate::attention::kernel::{KEYS, KvHead, Query, Scoring, State};

/// Lanes of a vector.
const LANES: usize = 8;
/// Vectors of scores of a query.
const VECTORS: usize = KEYS / LANES;

/// [`crate::attention::kernel::block`] for heads of a multiple of eight dimensions.
pub(crate) fn block(how: Scoring, kv: KvHead<'_>, q: &[f32], queries: &[Query], state: &mut State<'_>) {
    assert!(how.dim.is_multiple_of(LANES), "whole vectors");
    assert!(kv.keys.len() == how.dim * KEYS && kv.values.len() == how.dim * KEYS, "a head of a block");
    // SAFETY: a backend takes this instruction set only where it was detected.
    unsafe { all(how, kv, q, queries, state) }
}

/// [`crate::attention::kernel::join`] for a multiple of eight dimensions.
pub(crate) fn join(state: &mut State<'_>, slot: usize, max: f32, sum: f32, out: &[f32]) {
    // SAFETY: a backend takes this instruction set only where it was detected.
    unsafe { join_lanes(state, slot, max, sum, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn join_lanes(state: &mut State<'_>, slot: usize, max: f32, sum: f32, out: &[f32]) {
    let [[a, b]] = factors(state, &[slot], &[[max, sum]]);
    let (a, b) = (_mm256_set1_ps(a), _mm256_set1_ps(b));
    let total = &mut state.out[slot * out.len()..][..out.len()];
    for (total, part) in total.chunks_exact_mut(LANES).zip(out.chunks_exact(LANES)) {
        // SAFETY: both chunks are eight floats.
        unsafe { blend(total.as_mut_ptr(), _mm256_loadu_ps(part.as_ptr()), a, b) };
    }
}

/// `total = total*a + part*b`.
///
/// # Safety
/// Eight floats can be read and written at `total`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn blend(total: *mut f32, part: __m256, a: __m256, b: __m256) {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = _mm256_fmadd_ps(_mm256_loadu_ps(total), a, _mm256_mul_ps(part, b));
        _mm256_storeu_ps(total, sum);
    }
}

/// Joins maxima and sums `[max, sum]` at `slots`; gives the factors of the outputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn factors<const Q: usize>(state: &mut State<'_>, slots: &[usize; Q], new: &[[f32; 2]; Q]) -> [[f32; 2]; Q] {
    let (mut old_shift, mut new_shift) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for (index, (&slot, &[max, _])) in slots.iter().zip(new).enumerate() {
        let before = state.max[slot];
        let after = if max > before { max } else { before };
        (old_shift[index], new_shift[index]) = (before - after, max - after);
        state.max[slot] = after;
    }
    let (a, b) = (exp_array(&old_shift), exp_array(&new_shift));
    let mut factors = [[0.0; 2]; Q];
    for (index, (&slot, &[_, sum])) in slots.iter().zip(new).enumerate() {
        state.sum[slot] = state.sum[slot].mul_add(a[index], sum * b[index]);
        factors[index] = [a[index], b[index]];
    }
    factors
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn exp_array(x: &[f32; LANES]) -> [f32; LANES] {
    let mut y = [0.0; LANES];
    // SAFETY: both arrays are eight floats.
    unsafe { _mm256_storeu_ps(y.as_mut_ptr(), exp(_mm256_loadu_ps(x.as_ptr()))) };
    y
}

#[target_feature(enable = "avx2,fma,f16c")]
fn all(how: Scoring, kv: KvHead<'_>, q: &[f32], mut queries: &[Query], state: &mut State<'_>) {
    touch(kv.keys);
    touch(kv.values);
    while !queries.is_empty() {
        // Seven and eight part better into 4 + 3 and 4 + 4 than into 6 + 1 and 6 + 2.
        let count = match queries.len() {
            7 | 8 => 4,
            count => count.min(6),
        };
        let (tile, rest) = queries.split_at(count);
        match count {
            1 => some::<1, 8, 8>(how, kv, q, tile, state),
            2 => some::<2, 4, 4>(how, kv, q, tile, state),
            3 => some::<3, 2, 2>(how, kv, q, tile, state),
            4 => some::<4, 2, 2>(how, kv, q, tile, state),
            5 => some::<5, 2, 2>(how, kv, q, tile, state),
            _ => some::<6, 2, 2>(how, kv, q, tile, state),
        }
        queries = rest;
    }
}

/// Reads numbers in order. The kernels' own order of reading is not one that processors foresee, this one
/// is: it brings a cold block almost twice as fast, and costs little for a warm one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn touch(numbers: &[f16]) {
    let mut all = _mm256_setzero_si256();
    for chunk in numbers.chunks_exact(16) {
        // SAFETY: the chunk is 32 bytes.
        all = _mm256_xor_si256(all, unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) });
    }
    std::hint::black_box(all);
}

/// `Q` queries; `S` vectors of scores and `V` of outputs are in registers at a time.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn some<const Q: usize, const S: usize, const V: usize>(
    how: Scoring,
    kv: KvHead<'_>,
    q: &[f32],
    queries: &[Query],
    state: &mut State<'_>,
) {
    let queries: &[Query; Q] = queries.try_into().expect("a tile of Q queries");
    let mut p = [[0.0_f32; KEYS]; Q];
    products::<Q, S>(kv.keys, q, how.dim, queries, &mut p);
    let (mut slots, mut parts) = ([0; Q], [[0.0_f32; 2]; Q]);
    for (index, query) in queries.iter().enumerate() {
        slots[index] = query.slot;
        parts[index] = softmax(how, &mut p[index], query.mask);
    }
    let join = factors(state, &slots, &parts);
    values::<Q, V>(kv.values, &p, how.dim, queries, &join, state.out);
}

/// `p[i][key] = q_i · key` over the dimensions in order.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products<const Q: usize, const S: usize>(
    keys: &[f16],
    q: &[f32],
    dim: usize,
    queries: &[Query; Q],
    p: &mut [[f32; KEYS]; Q],
) {
    assert_eq!(keys.len(), dim * KEYS, "a head of a block");
    let mut rows = [q; Q];
    for (row, query) in rows.iter_mut().zip(queries) {
        *row = &q[query.input..][..dim];
    }
    for first in (0..VECTORS).step_by(S) {
        lanes::<Q, S>(keys, &rows, first, p);
    }
}

/// [`products`] of the `S` vectors from `first` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lanes<const Q: usize, const S: usize>(
    keys: &[f16],
    rows: &[&[f32]; Q],
    first: usize,
    p: &mut [[f32; KEYS]; Q],
) {
    let dim = rows[0].len();
    assert!((first + S) * LANES <= KEYS && keys.len() == dim * KEYS, "lanes of a head");
    assert!(rows.iter().all(|row| row.len() == dim), "rows of a head");
    let rows = rows.map(|row| row.as_ptr());
    let mut sums = [[_mm256_setzero_ps(); S]; Q];
    for d in 0..dim {
        // SAFETY: row `d` of the keys and element `d` of the rows exist, as asserted above.
        unsafe {
            let keys = keys.as_ptr().add(d * KEYS + first * LANES);
            multiply(&mut sums, keys, rows.map(|row| row.add(d)));
        }
    }
    for (p, sums) in p.iter_mut().zip(&sums) {
        for (index, &sum) in sums.iter().enumerate() {
            // SAFETY: the vector ends within the 64 floats of `p`.
            unsafe { _mm256_storeu_ps(p.as_mut_ptr().add((first + index) * LANES), sum) };
        }
    }
}

/// `sums[i][j] += *factors[i] * numbers[8*j..]`, in an order that needs the fewest registers.
///
/// # Safety
/// `8 * V` numbers and all factors can be read.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply<const Q: usize, const V: usize>(
    sums: &mut [[__m256; V]; Q],
    numbers: *const f16,
    factors: [*const f32; Q],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if Q < V {
            let mut broadcast = [_mm256_setzero_ps(); Q];
            for (to, from) in broadcast.iter_mut().zip(factors) {
                *to = _mm256_broadcast_ss(&*from);
            }
            for index in 0..V {
                let numbers = widen(numbers.add(index * LANES));
                for (sums, &factor) in sums.iter_mut().zip(&broadcast) {
                    sums[index] = _mm256_fmadd_ps(factor, numbers, sums[index]);
                }
            }
        } else {
            let mut wide = [_mm256_setzero_ps(); V];
            for (index, wide) in wide.iter_mut().enumerate() {
                *wide = widen(numbers.add(index * LANES));
            }
            for (sums, factor) in sums.iter_mut().zip(factors) {
                let factor = _mm256_broadcast_ss(&*factor);
                for (sum, &numbers) in sums.iter_mut().zip(&wide) {
                    *sum = _mm256_fmadd_ps(factor, numbers, *sum);
                }
            }
        }
    }
}

/// # Safety
/// Eight numbers can be read from `from`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widen(from: *const f16) -> __m256 {
    // SAFETY: the caller's promise; f16 is a transparent u16.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
}

/// Turns products into probabilities relative to the maximum, hidden keys into 0; gives maximum and sum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn softmax(how: Scoring, p: &mut [f32; KEYS], mask: u64) -> [f32; 2] {
    let mut scores = [_mm256_setzero_ps(); VECTORS];
    for (index, score) in scores.iter_mut().enumerate() {
        // SAFETY: the vector ends within the 64 floats of `p`.
        let product = unsafe { _mm256_loadu_ps(p.as_ptr().add(index * LANES)) };
        *score = _mm256_mul_ps(product, _mm256_set1_ps(how.scale));
    }
    if let Some(cap) = how.softcap {
        let cap = _mm256_set1_ps(cap);
        scores.iter_mut().for_each(|s| *s = _mm256_mul_ps(cap, tanh(_mm256_div_ps(*s, cap))));
    }
    if mask != u64::MAX {
        hide(&mut scores, mask);
    }
    let mut top = scores[0];
    for &score in &scores[1..] {
        top = _mm256_max_ps(top, score);
    }
    let max = horizontal_max(top);
    let shift = _mm256_set1_ps(max);
    for (index, score) in scores.iter_mut().enumerate() {
        *score = exp(_mm256_sub_ps(*score, shift));
        // SAFETY: the vector ends within the 64 floats of `p`.
        unsafe { _mm256_storeu_ps(p.as_mut_ptr().add(index * LANES), *score) };
    }
    let mut sum = scores[0];
    for &score in &scores[1..] {
        sum = _mm256_add_ps(sum, score);
    }
    [max, horizontal_sum(sum)]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn hide(scores: &mut [__m256; VECTORS], mask: u64) {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (index, score) in scores.iter_mut().enumerate() {
        let byte = _mm256_set1_epi32((mask >> (index * LANES) & 0xff) as i32);
        let visible = _mm256_cmpeq_epi32(_mm256_and_si256(byte, bits), bits);
        let hidden = _mm256_set1_ps(f32::NEG_INFINITY);
        *score = _mm256_blendv_ps(hidden, *score, _mm256_castsi256_ps(visible));
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn horizontal_max(x: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn horizontal_sum(x: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Sums `p * value` over the visible keys in order and joins it to the outputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn values<const Q: usize, const V: usize>(
    values: &[f16],
    p: &[[f32; KEYS]; Q],
    dim: usize,
    queries: &[Query; Q],
    join: &[[f32; 2]; Q],
    out: &mut [f32],
) {
    let mut column = 0;
    while column + V * LANES <= dim {
        let sums = columns::<Q, V>(values, p, dim, column, queries);
        add::<Q, V>(&sums, dim, column, queries, join, out);
        column += V * LANES;
    }
    while column < dim {
        let sums = columns::<Q, 1>(values, p, dim, column, queries);
        add::<Q, 1>(&sums, dim, column, queries, join, out);
        column += LANES;
    }
}

/// Sums `p * value` of the `V` vectors from `column` on over the visible keys in order.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn columns<const Q: usize, const V: usize>(
    values: &[f16],
    p: &[[f32; KEYS]; Q],
    dim: usize,
    column: usize,
    queries: &[Query; Q],
) -> [[__m256; V]; Q] {
    let same = queries.iter().all(|query| query.mask == queries[0].mask);
    let mut sums = [[_mm256_setzero_ps(); V]; Q];
    let mut left = queries.iter().fold(0, |all, query| all | query.mask);
    while left != 0 {
        let first = left.trailing_zeros() as usize;
        let end = first + (left >> first).trailing_ones() as usize;
        left &= u64::MAX.checked_shl(end as u32).unwrap_or(0);
        let keys = first..end;
        match same {
            true => keys_same::<Q, V>(&mut sums, values, p, dim, column, keys),
            false => keys_apart::<Q, V>(&mut sums, values, p, dim, column, keys, queries),
        }
    }
    sums
}

/// [`columns`] over the neighbouring keys `keys`, which all queries see.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn keys_same<const Q: usize, const V: usize>(
    sums: &mut [[__m256; V]; Q],
    values: &[f16],
    p: &[[f32; KEYS]; Q],
    dim: usize,
    column: usize,
    keys: Range<usize>,
) {
    assert!(column + V * LANES <= dim && values.len() == dim * KEYS && keys.end <= KEYS, "columns of a head");
    let rows = p.each_ref().map(|p| p.as_ptr());
    let mut local = *sums;
    for key in keys {
        // SAFETY: the columns lie within row `key` of the values, as asserted above.
        unsafe {
            let numbers = values.as_ptr().add(key * dim + column);
            multiply(&mut local, numbers, rows.map(|row| row.add(key)));
        }
    }
    *sums = local;
}

/// [`columns`] over the neighbouring keys `keys`, of which each query sees its own.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn keys_apart<const Q: usize, const V: usize>(
    sums: &mut [[__m256; V]; Q],
    values: &[f16],
    p: &[[f32; KEYS]; Q],
    dim: usize,
    column: usize,
    keys: Range<usize>,
    queries: &[Query; Q],
) {
    assert!(column + V * LANES <= dim && values.len() == dim * KEYS && keys.end <= KEYS, "columns of a head");
    for key in keys {
        let mut lanes = [_mm256_setzero_ps(); V];
        for (index, lanes) in lanes.iter_mut().enumerate() {
            // SAFETY: the columns lie within row `key` of the values, as asserted above.
            *lanes = unsafe { widen(values.as_ptr().add(key * dim + column + index * LANES)) };
        }
        for ((sums, p), query) in sums.iter_mut().zip(p).zip(queries) {
            if query.mask >> key & 1 == 1 {
                let p = _mm256_broadcast_ss(&p[key]);
                for (sum, &lanes) in sums.iter_mut().zip(&lanes) {
                    *sum = _mm256_fmadd_ps(p, lanes, *sum);
                }
            }
        }
    }
}

/// Joins the sums of the `V` vectors from `column` on to the outputs.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add<const Q: usize, const V: usize>(
    sums: &[[__m256; V]; Q],
    dim: usize,
    column: usize,
    queries: &[Query; Q],
    join: &[[f32; 2]; Q],
    out: &mut [f32],
) {
    for ((sums, &[a, b]), query) in sums.iter().zip(join).zip(queries) {
        let (a, b) = (_mm256_set1_ps(a), _mm256_set1_ps(b));
        let total = &mut out[query.slot * dim + column..][..V * LANES];
        for (total, &sum) in total.chunks_exact_mut(LANES).zip(sums) {
            // SAFETY: the chunk is eight floats.
            unsafe { blend(total.as_mut_ptr(), sum, a, b) };
        }
    }
}
