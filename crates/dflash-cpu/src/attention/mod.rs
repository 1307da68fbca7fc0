//! Attention over K/V blocks.
//!
//! A row's result depends on its own query, the keys it sees and their positions alone. Blocks of 64
//! positions are joined in order within runs of [`plan::RUN_BLOCKS`] blocks, runs are joined in order: one
//! formula, however the rows are split into calls, tiles, tasks and threads. Blocks and runs of which a row
//! sees nothing do not take part.

mod count;
pub(crate) mod kernel;
mod path;
pub(crate) mod plan;
mod prepare;
#[cfg(test)]
mod tests;
mod visible;
mod work;

use std::cell::RefCell;

use dflash_tensor::{AttentionSpec, BLOCK_POSITIONS, Batch, KvCache, SeqCache, Shape, Span, Tensor};

use crate::disjoint::Disjoint;
use crate::kv::{self, KvBlock};
use crate::{CpuBackend, host};
use plan::{Plan, Tile};
use work::{Call, Scratch, Softmax};

/// Outputs of parts below which one thread joins them faster than the others wake up.
const SMALL_JOIN: usize = 1 << 14;

thread_local! {
    /// Plan and parts of the call that this thread makes.
    static CALLER: RefCell<(Plan, Softmax)> = RefCell::default();
    /// Storage of the tasks that this thread works on.
    static WORKER: RefCell<Scratch> = RefCell::default();
}

/// [`Backend::append`](dflash_tensor::Backend::append).
pub(crate) fn append(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    k: &mut Tensor,
    v: &Tensor,
) {
    let chains = batch.spans().iter().all(|span| span.shape == Shape::Chain);
    assert!(chains, "only chains are appended without attending");
    CALLER.with_borrow_mut(|(plan, _)| {
        plan.place(spec, batch);
        store(backend, spec, layer, batch, caches, plan, k, v);
    });
}

/// [`Backend::attention`](dflash_tensor::Backend::attention).
#[allow(clippy::too_many_arguments)] // those of the seam
pub(crate) fn attend(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    q: &mut Tensor,
    kv: Option<(&mut Tensor, &Tensor)>,
    out: &mut Tensor,
) {
    assert_eq!(spec.heads % spec.kv.heads, 0, "query heads per key/value head");
    assert_eq!((q.rows(), q.cols()), (batch.rows(), spec.heads * spec.kv.dim), "shape of q");
    assert_eq!(out.cols(), q.cols(), "columns of the output");
    out.set_rows(batch.rows());
    CALLER.with_borrow_mut(|(plan, parts)| {
        plan.place(spec, batch);
        if let Some((k, v)) = kv {
            store(backend, spec, layer, batch, caches, plan, k, v);
        }
        let q = host::rows_mut(q);
        prepare::heads(&backend.pool, spec.q_norm.as_ref(), &spec.rope, spec.kv.dim, &plan.rows, q);
        count::count(&backend.meter, spec, batch, plan);
        plan.cut(spec, batch, backend.pool.threads());
        let call = Call { isa: backend.isa, spec, layer, batch, caches, plan, q };
        match plan.split {
            true => by_runs(backend, &call, parts, host::rows_mut(out)),
            false => by_tiles(backend, &call, host::rows_mut(out)),
        }
    });
}

/// Normalises and rotates `k` and rounds `k` and `v` into the caches.
#[allow(clippy::too_many_arguments)]
fn store(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    plan: &Plan,
    k: &mut Tensor,
    v: &Tensor,
) {
    let shape = (batch.rows(), spec.kv.heads * spec.kv.dim);
    assert_eq!((k.rows(), k.cols()), shape, "shape of k");
    assert_eq!((v.rows(), v.cols()), shape, "shape of v");
    assert_eq!(batch.spans().len(), caches.len(), "a cache for every span");
    prepare::heads(
        &backend.pool,
        spec.k_norm.as_ref(),
        &spec.rope,
        spec.kv.dim,
        &plan.rows,
        host::rows_mut(k),
    );
    let (k, v) = (host::rows(k), host::rows(v));
    for (span, cache) in batch.spans().iter().zip(caches) {
        let cache = cache.layer_mut(layer).kv_mut();
        assert_eq!(cache.geometry(), spec.kv, "a cache of this layer");
        let rows = span.first_row * shape.1..(span.first_row + span.rows) * shape.1;
        store_span(cache, span, &k[rows.clone()], &v[rows]);
    }
}

fn store_span(cache: &mut KvCache, span: &Span, k: &[f32], v: &[f32]) {
    let geometry = cache.geometry();
    let cols = geometry.heads * geometry.dim;
    let make = || kv::new_block(geometry);
    let first = if span.shape == Shape::Chain { span.start } else { 0 };
    let mut row = 0;
    while row < span.rows {
        let (block, slot) = ((first + row) / BLOCK_POSITIONS, (first + row) % BLOCK_POSITIONS);
        let store = match span.shape {
            Shape::Chain => cache.block_mut(block, make),
            Shape::Tree(_) => cache.tree_block_mut(block, make),
        };
        let store = KvBlock::of_mut(store);
        let end = span.rows.min(row + BLOCK_POSITIONS - slot);
        for (slot, row) in (slot..).zip(row..end) {
            store.write(slot, &k[row * cols..][..cols], &v[row * cols..][..cols]);
        }
        row = end;
    }
}

/// Threads take tile after tile with all its runs.
fn by_tiles(backend: &CpuBackend, call: &Call<'_>, out: &mut [f32]) {
    let out = Disjoint::new(out);
    each_task(backend, call.plan.threads, call.plan.tasks.len(), &|task, scratch| {
        let tile = &call.plan.tiles[call.plan.tasks[task].tile];
        let (queries, dim) = (call.queries(tile), call.dim());
        scratch.total.reset(queries, dim);
        work::attend(call, task, scratch, |scratch, _run| {
            scratch.total.join(call.isa, &scratch.run, 0..queries, dim);
        });
        for row in tile.rows.clone() {
            let slot = (row - tile.rows.start) * call.group();
            finish(call, tile, row, &scratch.total, slot, &out);
        }
    });
}

/// Threads take run after run, then join them.
fn by_runs(backend: &CpuBackend, call: &Call<'_>, parts: &mut Softmax, out: &mut [f32]) {
    parts.reserve(call.plan.parts, call.dim());
    attend_runs(backend, call, parts);
    join_runs(backend, call, parts, out);
}

fn attend_runs(backend: &CpuBackend, call: &Call<'_>, parts: &mut Softmax) {
    let dim = call.dim();
    let (max, sum) = (Disjoint::new(&mut parts.max), Disjoint::new(&mut parts.sum));
    let outs = Disjoint::new(&mut parts.out);
    each_task(backend, call.plan.threads, call.plan.tasks.len(), &|task, scratch| {
        let tile = &call.plan.tiles[call.plan.tasks[task].tile];
        let queries = call.queries(tile);
        work::attend(call, task, scratch, |scratch, run| {
            let first = tile.part + (run - tile.runs.start) * queries;
            let own = first..first + queries;
            // SAFETY: every run of every tile has parts of its own and is in one task.
            let (max, sum, out) = unsafe {
                (max.piece(own.clone()), sum.piece(own), outs.piece(first * dim..(first + queries) * dim))
            };
            max.copy_from_slice(&scratch.run.max);
            sum.copy_from_slice(&scratch.run.sum);
            out.copy_from_slice(&scratch.run.out);
        });
    });
}

fn join_runs(backend: &CpuBackend, call: &Call<'_>, parts: &Softmax, out: &mut [f32]) {
    let out = Disjoint::new(out);
    let (dim, group) = (call.dim(), call.group());
    let threads = if parts.out.len() < SMALL_JOIN { 1 } else { call.plan.threads };
    each_task(backend, threads, call.plan.tiles.len(), &|tile, scratch| {
        let tile = &call.plan.tiles[tile];
        for row in tile.rows.clone() {
            scratch.total.reset(group, dim);
            for run in 0..tile.runs.len() {
                let first = tile.part + run * call.queries(tile) + (row - tile.rows.start) * group;
                scratch.total.join(call.isa, parts, first..first + group, dim);
            }
            finish(call, tile, row, &scratch.total, 0, &out);
        }
    });
}

/// Divides the outputs of a row's heads, from `slot` on, by their sums.
fn finish(call: &Call<'_>, tile: &Tile, row: usize, total: &Softmax, slot: usize, out: &Disjoint<'_, f32>) {
    let (dim, group) = (call.dim(), call.group());
    let first = call.first(tile, row);
    // SAFETY: rows and heads of a tile are those of no other tile, and a tile is finished by one task.
    let out = unsafe { out.piece(first..first + group * dim) };
    let totals = total.out[slot * dim..].chunks_exact(dim).zip(&total.sum[slot..]);
    for (out, (total, sum)) in out.chunks_exact_mut(dim).zip(totals) {
        out.iter_mut().zip(total).for_each(|(out, total)| *out = total / sum);
    }
}

/// Runs `body(task, scratch)` for `0..count` on one thread or all.
fn each_task(
    backend: &CpuBackend,
    threads: usize,
    count: usize,
    body: &(dyn Fn(usize, &mut Scratch) + Sync),
) {
    if threads == 1 {
        return WORKER.with_borrow_mut(|scratch| (0..count).for_each(|task| body(task, scratch)));
    }
    backend.pool.each(count, &|_, task| WORKER.with_borrow_mut(|scratch| body(task, scratch)));
}
