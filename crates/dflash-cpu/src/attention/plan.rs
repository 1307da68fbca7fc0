//! How one call's work is cut: rows into tiles, tiles into tasks for the threads.

use std::cmp::Reverse;
use std::ops::Range;

use dflash_tensor::{AttentionSpec, BLOCK_POSITIONS, Batch, Shape};

use super::visible::Visible;

/// Blocks whose softmax is joined on its own before it joins the rest: the unit of work and of the join
/// across threads. Part of the formula; it depends on positions alone.
pub(crate) const RUN_BLOCKS: usize = 4;
/// Queries (rows times heads) that share a pass over the keys: their state stays in the caches.
const TILE_QUERIES: usize = 64;
/// Tasks per thread that even out threads of unequal speed.
const TASKS: usize = 4;
/// Tasks per thread up to which they consist of single runs. Memory is read faster in longer ones.
const SHORT_TASKS: usize = 8;
/// Multiply-adds below which one thread is faster than waking the others.
const SMALL: usize = 1 << 17;

/// A row of the batch.
pub(crate) struct Row {
    /// Absolute position.
    pub(crate) position: usize,
    /// Keys it sees.
    pub(crate) visible: Visible,
}

/// Neighbouring rows of a span with the query heads of one key/value head.
#[derive(Clone)]
pub(crate) struct Tile {
    pub(crate) span: usize,
    pub(crate) kv_head: usize,
    /// Rows of the batch.
    pub(crate) rows: Range<usize>,
    /// Keys that any of the rows sees.
    pub(crate) hull: Visible,
    /// Runs that hold these keys.
    pub(crate) runs: Range<usize>,
    /// Where the parts of its runs are kept when runs are separate tasks.
    pub(crate) part: usize,
}

/// Some runs of a tile.
pub(crate) struct Task {
    pub(crate) tile: usize,
    pub(crate) runs: Range<usize>,
}

impl Task {
    /// Keys of its runs that any row of its tile sees.
    pub(crate) fn visible(&self, tile: &Tile) -> Visible {
        let positions = RUN_BLOCKS * BLOCK_POSITIONS;
        tile.hull.within(&(self.runs.start * positions..self.runs.end * positions))
    }
}

/// The plan of a call, reused from call to call.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) rows: Vec<Row>,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) tasks: Vec<Task>,
    /// Whether the runs of a tile are different tasks.
    pub(crate) split: bool,
    /// Parts that split tiles keep, in queries.
    pub(crate) parts: usize,
    /// Threads that take part.
    pub(crate) threads: usize,
}

impl Plan {
    /// Position and visible keys of every row.
    pub(crate) fn place(&mut self, spec: &AttentionSpec, batch: &Batch) {
        self.rows.clear();
        for span in batch.spans() {
            assert_eq!(span.first_row, self.rows.len(), "spans follow each other");
            assert!(spec.mask.causal || span.shape == Shape::Chain, "a tree is causal");
            self.rows.extend((0..span.rows).map(|row| {
                let position = span.position(row);
                Row { position, visible: Visible::new(&spec.mask, span, position) }
            }));
        }
    }

    /// Cuts the placed rows into tasks for `threads` threads.
    pub(crate) fn cut(&mut self, spec: &AttentionSpec, batch: &Batch, threads: usize) {
        let group = spec.heads / spec.kv.heads;
        let seen: usize = self.rows.iter().map(|row| row.visible.len()).sum();
        self.threads = if seen * spec.heads * spec.kv.dim * 2 < SMALL { 1 } else { threads };
        let mut rows = (TILE_QUERIES / group).max(1);
        loop {
            self.tile(batch, spec.kv.heads, rows);
            let units: usize = self.tiles.iter().map(|tile| tile.runs.len()).sum();
            if rows == 1 || self.threads == 1 || units >= TASKS * self.threads {
                break;
            }
            rows = rows.div_ceil(2);
        }
        self.split = self.threads > 1 && self.tiles.len() < TASKS * self.threads;
        self.assign(group);
    }

    fn tile(&mut self, batch: &Batch, kv_heads: usize, rows: usize) {
        self.tiles.clear();
        for (index, span) in batch.spans().iter().enumerate() {
            for first in (0..span.rows).step_by(rows) {
                let end = (first + rows).min(span.rows);
                let rows = span.first_row + first..span.first_row + end;
                let hull =
                    self.rows[rows.clone()].iter().fold(Visible::none(), |hull, row| hull.hull(&row.visible));
                let runs = runs(&hull);
                self.tiles.extend((0..kv_heads).map(|kv_head| {
                    let (rows, hull, runs) = (rows.clone(), hull.clone(), runs.clone());
                    Tile { span: index, kv_head, rows, hull, runs, part: 0 }
                }));
            }
        }
    }

    /// Long tasks come first, so that the threads end together: in a causal chain the last rows. While a task
    /// ends the next one's keys are fetched, for which the last tasks are too short.
    fn assign(&mut self, group: usize) {
        self.tasks.clear();
        self.parts = 0;
        let units: usize = self.tiles.iter().map(|tile| tile.runs.len()).sum();
        let long = (units / (SHORT_TASKS * self.threads)).max(1);
        for (index, tile) in self.tiles.iter_mut().enumerate().rev() {
            if !self.split {
                self.tasks.push(Task { tile: index, runs: tile.runs.clone() });
                continue;
            }
            tile.part = self.parts;
            self.parts += tile.runs.len() * tile.rows.len() * group;
            let starts = tile.runs.clone().step_by(long);
            self.tasks.extend(
                starts.map(|first| Task { tile: index, runs: first..tile.runs.end.min(first + long) }),
            );
        }
        if self.split {
            let Self { tasks, tiles, .. } = self;
            tasks.sort_unstable_by_key(|task| {
                let tile = &tiles[task.tile];
                let work = tile.rows.len() * task.visible(tile).len();
                (Reverse(work), Reverse(task.tile), task.runs.start)
            });
        }
    }
}

fn runs(hull: &Visible) -> Range<usize> {
    let positions = RUN_BLOCKS * BLOCK_POSITIONS;
    let first = if hull.sink.is_empty() { hull.near.start } else { hull.sink.start };
    let end = if hull.near.is_empty() { hull.sink.end } else { hull.near.end };
    first / positions..end.div_ceil(positions)
}
