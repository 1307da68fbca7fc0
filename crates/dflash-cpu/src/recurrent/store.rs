use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use dflash_tensor::{Accepted, DeltaGeometry, KeyHeadMap, RecurrentGeometry, RecurrentStore, Shape, Span};

use super::job::Job;
use super::kernel::{Columns, Taped, on};
use super::layout::{Layout, lanes, tile_columns, tile_rows, tiles};
use super::tape::Tape;
use crate::Isa;
use crate::disjoint::Disjoint;
use crate::memory::Bytes;
use crate::pool::{Pool, steps};

/// What a row leaves to the next one.
pub(crate) struct State {
    /// Tiles of the heads, as [`Layout`] says.
    heads: Bytes,
    /// The last raw rows, oldest first: `[kernel - 1, channels]`.
    pub(crate) tail: Vec<f32>,
}

impl State {
    fn zeroed(layout: &Layout) -> Self {
        Self { heads: Bytes::alone(layout.state() * size_of::<Columns>()), tail: vec![0.0; layout.tail()] }
    }

    /// Tiles of the heads.
    pub(crate) fn heads(&self) -> &[Columns] {
        bytemuck::cast_slice(&self.heads)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.tail)
    }

    /// The tail after rows on top of `before`, the newest of them first.
    fn push<'a>(&mut self, before: &'a State, newest: impl Iterator<Item = &'a [f32]>, channels: usize) {
        let rows = newest.chain(before.tail.chunks_exact(channels).rev());
        let tail = self.tail.chunks_exact_mut(channels).rev();
        tail.zip(rows).for_each(|(target, row)| target.copy_from_slice(row));
    }
}

/// The pass in flight.
#[derive(Clone, Copy)]
struct Pass {
    rows: usize,
    /// Whether the state after its last row is that of all its rows.
    chain: bool,
    taped: bool,
}

/// The state of a layer of a sequence.
///
/// A pass never writes the committed state, which snapshots share. It writes into a spare one, which takes its
/// place when the whole pass is accepted.
pub(crate) struct RecurrentState {
    layout: Layout,
    isa: Isa,
    pool: Arc<Pool>,
    committed: Arc<State>,
    spare: Option<Arc<State>>,
    tape: Tape,
    /// Whether the pass that was announced may be accepted in part.
    taped: bool,
    pass: Option<Pass>,
}

impl RecurrentState {
    /// Of a sequence without rows.
    pub(crate) fn new(geometry: RecurrentGeometry, isa: Isa, pool: &Arc<Pool>) -> Self {
        let layout = Layout { geometry };
        Self::of(layout, isa, pool, Arc::new(State::zeroed(&layout)))
    }

    fn of(layout: Layout, isa: Isa, pool: &Arc<Pool>, committed: Arc<State>) -> Self {
        let (pool, tape) = (Arc::clone(pool), Tape::new(layout));
        Self { layout, isa, pool, committed, spare: None, tape, taped: false, pass: None }
    }

    /// The state behind the seam's trait, for writing.
    pub(crate) fn of_mut(store: &mut dyn RecurrentStore) -> &mut Self {
        store.as_any_mut().downcast_mut().expect("a state of this backend")
    }

    /// Sizes.
    pub(crate) fn geometry(&self) -> RecurrentGeometry {
        self.layout.geometry
    }

    /// Begins the work on the rows of `span`, whose raw rows are `raw`.
    pub(crate) fn run<'a>(&'a mut self, span: &'a Span, raw: &[f32], key_heads: KeyHeadMap) -> Job<'a> {
        let (chain, channels) = (is_chain(span), self.layout.channels());
        // A part of a tree is accepted as a rule, so it is always taped.
        let pass = Pass { rows: span.rows, chain, taped: self.taped || !chain };
        self.pass = Some(pass);
        let next = writable(&mut self.spare, &self.layout);
        next.push(&self.committed, raw.chunks_exact(channels).rev(), channels);
        if pass.taped {
            self.tape.begin(span.rows, key_heads);
        }
        let tape = pass.taped.then(|| self.tape.rows_mut());
        Job::new(span, self.layout, &self.committed, bytemuck::cast_slice_mut(&mut next.heads), tape)
    }

    /// Repeats the steps of `path` on the committed state: where it stands, unless a snapshot shares it.
    fn replay(&mut self, path: Accepted<'_>) {
        let Self { layout, isa, pool, committed, spare, tape, .. } = self;
        let next = writable(spare, layout);
        let newest = (0..path.count()).rev().map(|index| tape.step(path.row(index)).raw);
        next.push(committed, newest, layout.channels());
        let geometry = layout.geometry.delta;
        let repeat = |head, tile, state: &mut [Columns]| {
            geometry.iter().for_each(|geometry| repeat(*isa, geometry, tape, path, (head, tile), state));
        };
        match Arc::get_mut(committed) {
            Some(State { heads, tail }) => {
                std::mem::swap(tail, &mut next.tail);
                let heads = bytemuck::cast_slice_mut(heads);
                each_tile(pool, geometry.as_ref(), heads, &|head, tile, _, state| repeat(head, tile, state));
            }
            None => {
                let heads = bytemuck::cast_slice_mut(&mut next.heads);
                each_tile(pool, geometry.as_ref(), heads, &|head, tile, own, state| {
                    state.copy_from_slice(&committed.heads()[own]);
                    repeat(head, tile, state);
                });
                std::mem::swap(committed, spare.as_mut().expect("a state just written"));
            }
        }
    }
}

/// Works on `(head, tile, rows of the tile, the rows)`.
type TileBody<'a> = dyn Fn(usize, usize, Range<usize>, &mut [Columns]) + Sync + 'a;

/// Runs `body` for every tile of a state on the threads.
fn each_tile(pool: &Pool, geometry: Option<&DeltaGeometry>, heads: &mut [Columns], body: &TileBody<'_>) {
    let Some(geometry) = geometry else { return };
    let heads = Disjoint::new(heads);
    let tile = |head, tile| {
        let own = tile_rows(geometry, head, tile);
        // SAFETY: a head is one thread's, and tiles do not overlap.
        body(head, tile, own.clone(), unsafe { heads.piece(own) });
    };
    pool.split(geometry.value_heads, &|_, own| {
        own.for_each(|head| (0..tiles(geometry)).for_each(|index| tile(head, index)));
    });
}

/// Steps that go over a tile together.
const STEPS: usize = 16;

/// Repeats the steps of `path` on a tile.
fn repeat(
    isa: Isa,
    geometry: &DeltaGeometry,
    tape: &Tape,
    path: Accepted<'_>,
    (head, tile): (usize, usize),
    state: &mut [Columns],
) {
    let key = tape.key_heads.key_head(geometry, head) * geometry.key_dim;
    let columns = tile_columns(geometry, head, tile);
    let taped = |index: usize| {
        let step = tape.step(path.row(index));
        let k = &step.k[key..][..geometry.key_dim];
        Taped { k, g: step.g[head], delta: lanes(&step.delta[columns.clone()]) }
    };
    for indices in steps(0..path.count(), STEPS) {
        let mut steps = [Taped::NOTHING; STEPS];
        steps.iter_mut().zip(indices.clone()).for_each(|(step, index)| *step = taped(index));
        on!(isa, repeat(state, &steps[..indices.len()]));
    }
}

/// Whether every row continues the one before.
fn is_chain(span: &Span) -> bool {
    match &span.shape {
        Shape::Chain => true,
        Shape::Tree(parents) => parents.iter().enumerate().all(|(row, &parent)| parent == row.checked_sub(1)),
    }
}

/// A state that nobody else sees.
fn writable<'a>(spare: &'a mut Option<Arc<State>>, layout: &Layout) -> &'a mut State {
    if spare.as_mut().and_then(Arc::get_mut).is_none() {
        *spare = Some(Arc::new(State::zeroed(layout)));
    }
    spare.as_mut().and_then(Arc::get_mut).expect("a state just made")
}

impl RecurrentStore for RecurrentState {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn begin(&mut self, taped: bool) {
        (self.taped, self.pass) = (taped, None);
    }

    fn accept(&mut self, rows: Accepted<'_>) {
        let pass = self.pass.take();
        if rows.count() == 0 {
            return;
        }
        let pass = pass.expect("rows are accepted after they went through the layer");
        if !pass.chain || rows.count() < pass.rows {
            assert!(pass.taped, "a part of a pass that was announced as a whole");
            return self.replay(rows);
        }
        let spare = self.spare.as_mut().expect("a pass has a state after it");
        std::mem::swap(&mut self.committed, spare);
    }

    fn copy(&self) -> Box<dyn RecurrentStore> {
        Box::new(Self::of(self.layout, self.isa, &self.pool, Arc::clone(&self.committed)))
    }

    fn bytes(&self) -> usize {
        let spare = self.spare.as_ref().map_or(0, |spare| spare.bytes());
        self.committed.bytes() + spare + self.tape.held()
    }

    fn tape_bytes(&self) -> usize {
        self.tape.bytes()
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.committed.heads);
        out.extend_from_slice(bytemuck::cast_slice(&self.committed.tail));
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        let mut state = State::zeroed(&self.layout);
        if bytes.len() != state.bytes() {
            return false;
        }
        let (heads, tail) = bytes.split_at(state.heads.len());
        state.heads.copy_from_slice(heads);
        bytemuck::cast_slice_mut(&mut state.tail).copy_from_slice(tail);
        (self.committed, self.spare, self.pass) = (Arc::new(state), None, None);
        true
    }
}
