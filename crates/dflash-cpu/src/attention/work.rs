//! One task: the rows of a tile attend to the blocks of some runs, in order of position.

use std::ops::Range;

use dflash_tensor::{AttentionSpec, BLOCK_POSITIONS, Batch, KvCache, SeqCache, Shape, Span};

use super::kernel::{self, KvHead, Later, Query, Scoring, State, Visit};
use super::path::PathBlock;
use super::plan::{Plan, RUN_BLOCKS, Row, Tile};
use crate::Isa;
use crate::kv::KvBlock;

/// What all tasks of a call read.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) isa: Isa,
    pub(crate) spec: &'a AttentionSpec,
    pub(crate) layer: usize,
    pub(crate) batch: &'a Batch,
    pub(crate) caches: &'a [&'a mut SeqCache],
    pub(crate) plan: &'a Plan,
    pub(crate) q: &'a [f32],
}

impl<'a> Call<'a> {
    /// Query heads of a key/value head.
    pub(crate) fn group(&self) -> usize {
        self.spec.heads / self.spec.kv.heads
    }

    /// Width of a head.
    pub(crate) fn dim(&self) -> usize {
        self.spec.kv.dim
    }

    /// Rows times heads of a tile.
    pub(crate) fn queries(&self, tile: &Tile) -> usize {
        tile.rows.len() * self.group()
    }

    /// First element of the heads of `tile` in row `row` of `q` and of the output.
    pub(crate) fn first(&self, tile: &Tile, row: usize) -> usize {
        (row * self.spec.heads + tile.kv_head * self.group()) * self.dim()
    }

    fn cache(&self, tile: &Tile) -> &'a KvCache {
        self.caches[tile.span].layer(self.layer).kv()
    }

    fn span(&self, tile: &Tile) -> &'a Span {
        &self.batch.spans()[tile.span]
    }
}

/// Running softmax of some queries.
#[derive(Default)]
pub(crate) struct Softmax {
    pub(crate) max: Vec<f32>,
    pub(crate) sum: Vec<f32>,
    pub(crate) out: Vec<f32>,
}

impl Softmax {
    /// `queries` queries that have seen nothing.
    pub(crate) fn reset(&mut self, queries: usize, dim: usize) {
        fill(&mut self.max, queries, f32::NEG_INFINITY);
        fill(&mut self.sum, queries, 0.0);
        fill(&mut self.out, queries * dim, 0.0);
    }

    /// Room for parts: sums are 0 (nothing seen), maxima and outputs are written with their sums.
    pub(crate) fn reserve(&mut self, queries: usize, dim: usize) {
        fill(&mut self.sum, queries, 0.0);
        self.max.resize(queries, 0.0);
        self.out.resize(queries * dim, 0.0);
    }

    /// For the kernels.
    pub(crate) fn state(&mut self) -> State<'_> {
        State { max: &mut self.max, sum: &mut self.sum, out: &mut self.out }
    }

    /// Joins the queries `slots` of a later softmax to the first ones of this one.
    pub(crate) fn join(&mut self, isa: Isa, later: &Self, slots: Range<usize>, dim: usize) {
        let out = &later.out[slots.start * dim..slots.end * dim];
        let later = Later { max: &later.max[slots.clone()], sum: &later.sum[slots], out };
        kernel::join(isa, &mut self.state(), later, dim);
    }
}

fn fill(values: &mut Vec<f32>, len: usize, value: f32) {
    values.clear();
    values.resize(len, value);
}

/// A thread's storage, reused from task to task.
#[derive(Default)]
pub(crate) struct Scratch {
    queries: Vec<Query>,
    path: PathBlock,
    pub(crate) run: Softmax,
    pub(crate) total: Softmax,
}

/// Attends from a tile to the blocks of the runs of task `task`; `done(scratch, run)` takes the softmax of each
/// run that holds visible keys.
pub(crate) fn attend(
    call: &Call<'_>,
    task: usize,
    scratch: &mut Scratch,
    done: impl Fn(&mut Scratch, usize),
) {
    let plan = call.plan;
    let tile = &plan.tiles[plan.tasks[task].tile];
    let (mut current, mut blocks) = (None, plan.tasks[task].visible(tile).blocks().peekable());
    while let Some(block) = blocks.next() {
        let run = block / RUN_BLOCKS;
        if current != Some(run) {
            if let Some(run) = current {
                done(scratch, run);
            }
            scratch.run.reset(call.queries(tile), call.dim());
            current = Some(run);
        }
        let next = match blocks.peek() {
            Some(&block) => head(call, tile, block),
            None => later(call, task),
        };
        attend_block(call, tile, block, next, scratch);
    }
    if let Some(run) = current {
        done(scratch, run);
    }
}

/// What this thread needs first after task `task`, if the threads take the tasks in turns.
fn later<'a>(call: &Call<'a>, task: usize) -> Option<KvHead<'a>> {
    let task = call.plan.tasks.get(task + call.plan.threads)?;
    let tile = &call.plan.tiles[task.tile];
    head(call, tile, task.visible(tile).blocks().next()?)
}

/// Attends from a tile to `block` and fetches `next`.
fn attend_block(call: &Call<'_>, tile: &Tile, block: usize, next: Option<KvHead<'_>>, scratch: &mut Scratch) {
    let span = call.span(tile);
    if matches!(span.shape, Shape::Tree(_)) && block >= span.start / BLOCK_POSITIONS {
        return attend_path(call, tile, block, scratch);
    }
    scratch.queries.clear();
    for row in tile.rows.clone() {
        push(call, tile, row, block, &mut scratch.queries);
    }
    if scratch.queries.is_empty() {
        return;
    }
    let head = head(call, tile, block).expect("a visible block is kept");
    run_kernel(call, head, next.unwrap_or(head), &scratch.queries, &mut scratch.run);
}

/// The head of `tile` in `block`, if the cache holds the block.
fn head<'a>(call: &Call<'a>, tile: &Tile, block: usize) -> Option<KvHead<'a>> {
    let store = KvBlock::of(call.cache(tile).block(block)?);
    Some(KvHead { keys: store.keys(tile.kv_head), values: store.values(tile.kv_head) })
}

/// Each row of a tree sees a block of its own: the committed keys and those of its path.
fn attend_path(call: &Call<'_>, tile: &Tile, block: usize, scratch: &mut Scratch) {
    let (span, cache) = (call.span(tile), call.cache(tile));
    scratch.path.begin(cache, span, block, tile.kv_head);
    for row in tile.rows.clone() {
        scratch.queries.clear();
        push(call, tile, row, block, &mut scratch.queries);
        if !scratch.queries.is_empty() {
            let position = call.plan.rows[row].position;
            scratch.path.gather(cache, span, row - span.first_row, position);
            let head = scratch.path.head();
            run_kernel(call, head, head, &scratch.queries, &mut scratch.run);
        }
    }
}

/// The queries of `row` if it sees anything of the block.
fn push(call: &Call<'_>, tile: &Tile, row: usize, block: usize, queries: &mut Vec<Query>) {
    let Row { visible, .. } = &call.plan.rows[row];
    let mask = visible.mask(block);
    if mask == 0 {
        return;
    }
    let (input, slot) = (call.first(tile, row), (row - tile.rows.start) * call.group());
    let query = |head| Query { input: input + head * call.dim(), slot: slot + head, mask };
    queries.extend((0..call.group()).map(query));
}

fn run_kernel(call: &Call<'_>, head: KvHead<'_>, next: KvHead<'_>, queries: &[Query], run: &mut Softmax) {
    let how = Scoring { dim: call.dim(), scale: call.spec.scale, softcap: call.spec.softcap };
    let visit = Visit { how, kv: head, next, q: call.q, queries };
    kernel::block(call.isa, visit, &mut run.state());
}
