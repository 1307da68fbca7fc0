use std::any::Any;
use std::sync::Arc;

use dflash_tensor::{Accepted, DeltaGeometry, KeyHeadMap, RecurrentGeometry, RecurrentStore, Shape, Span};

use super::job::Job;
use super::kernel::{Columns, WIDTH, on};
use super::layout::{Layout, lanes, tile_columns, tile_rows, tiles};
use super::tape::Tape;
use crate::Isa;
use crate::disjoint::Disjoint;
use crate::pool::Pool;

/// What a row leaves to the next one.
pub(crate) struct State {
    /// Tiles of the heads, as [`Layout`] says.
    pub(crate) heads: Vec<Columns>,
    /// The last raw rows, oldest first: `[kernel - 1, channels]`.
    pub(crate) tail: Vec<f32>,
}

impl State {
    fn zeroed(layout: &Layout) -> Self {
        Self { heads: vec![Columns([0.0; WIDTH]); layout.state()], tail: vec![0.0; layout.tail()] }
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
/// The committed state is shared with snapshots and never written. A pass writes into a spare one, which
/// takes its place when it is accepted.
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
        Job::new(span, self.layout, &self.committed, &mut next.heads, tape)
    }

    /// Repeats the steps of `path` from the committed state into the spare one.
    fn replay(&mut self, path: &[usize]) {
        let Self { layout, isa, pool, committed, spare, tape, .. } = self;
        let next = writable(spare, layout);
        next.push(committed, path.iter().rev().map(|&row| tape.step(row).raw), layout.channels());
        let Some(geometry) = layout.geometry.delta else { return };
        let heads = Disjoint::new(&mut next.heads);
        pool.each(geometry.value_heads, &|_, head| {
            for tile in 0..tiles(&geometry) {
                let own = tile_rows(&geometry, head, tile);
                // SAFETY: a head is one thread's, and tiles do not overlap.
                let state = unsafe { heads.piece(own.clone()) };
                state.copy_from_slice(&committed.heads[own]);
                repeat(*isa, &geometry, tape, path, (head, tile), state);
            }
        });
    }
}

/// Repeats the steps of `path` on a tile.
fn repeat(
    isa: Isa,
    geometry: &DeltaGeometry,
    tape: &Tape,
    path: &[usize],
    (head, tile): (usize, usize),
    state: &mut [Columns],
) {
    let key = tape.key_heads.key_head(geometry, head) * geometry.key_dim;
    let columns = tile_columns(geometry, head, tile);
    for &row in path {
        let step = tape.step(row);
        let delta = lanes(&step.delta[columns.clone()]);
        on!(isa, write(state, &step.k[key..][..geometry.key_dim], step.g[head], &delta));
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
        let path = match rows {
            Accepted::Chain(count) => (0..count).collect(),
            Accepted::Path(path) => path.to_vec(),
        };
        if path.is_empty() {
            return;
        }
        let pass = pass.expect("rows are accepted after they went through the layer");
        if !pass.chain || path.len() < pass.rows {
            assert!(pass.taped, "a part of a pass that was announced as a whole");
            self.replay(&path);
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
}
