use std::any::Any;
use std::sync::Arc;

use crate::{Accepted, RecurrentStore};

/// Absolute positions in a K/V block: the chunk of attention's running softmax and the unit of sharing.
pub const BLOCK_POSITIONS: usize = 64;

/// Key/value heads of a layer and their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGeometry {
    /// Key/value heads.
    pub heads: usize,
    /// Width of a head.
    pub dim: usize,
}

/// Which committed positions a layer keeps: the first `sink` and the last `tail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Leading positions.
    pub sink: usize,
    /// Trailing positions.
    pub tail: usize,
}

/// A backend's storage of [`BLOCK_POSITIONS`] K/V rows of one layer, f16, rounded once when written.
pub trait KvStore: Any + Send + Sync {
    /// For the backend's downcast.
    fn as_any(&self) -> &dyn Any;
    /// For the backend's downcast.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// A deep copy.
    fn copy(&self) -> Box<dyn KvStore>;
    /// Copies one row of `source` into slot `slot`.
    fn copy_row(&mut self, slot: usize, source: &dyn KvStore, source_slot: usize);
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// Keys and values of one layer in blocks of absolute positions.
///
/// Blocks are shared by reference between snapshots; a shared block is copied before it is written.
#[derive(Clone)]
pub struct KvCache {
    geometry: KvGeometry,
    keep: Option<Keep>,
    blocks: Vec<Option<Arc<Box<dyn KvStore>>>>,
    /// Rows of a tree under verification, slot = row of the span; a chain goes to `blocks` directly.
    tree: Vec<Arc<Box<dyn KvStore>>>,
}

impl KvCache {
    /// An empty cache; `keep` drops blocks that no row can see any more.
    pub fn new(geometry: KvGeometry, keep: Option<Keep>) -> Self {
        Self { geometry, keep, blocks: Vec::new(), tree: Vec::new() }
    }

    /// Heads and width.
    pub fn geometry(&self) -> KvGeometry {
        self.geometry
    }

    /// The block of positions `64*index..`, if any of it was written and kept.
    pub fn block(&self, index: usize) -> Option<&dyn KvStore> {
        self.blocks.get(index)?.as_deref().map(|store| store.as_ref())
    }

    /// The block of positions `64*index..` for writing; `make` creates it when absent.
    pub fn block_mut(&mut self, index: usize, make: impl FnOnce() -> Box<dyn KvStore>) -> &mut dyn KvStore {
        if self.blocks.len() <= index {
            self.blocks.resize_with(index + 1, || None);
        }
        writable(self.blocks[index].get_or_insert_with(|| Arc::new(make())))
    }

    /// Block `index` of the rows of a tree: rows `64*index..` of the span.
    pub fn tree_block(&self, index: usize) -> Option<&dyn KvStore> {
        self.tree.get(index).map(|store| store.as_ref().as_ref())
    }

    /// Block `index` of the rows of a tree for writing; blocks are made in order.
    pub fn tree_block_mut(
        &mut self,
        index: usize,
        make: impl FnOnce() -> Box<dyn KvStore>,
    ) -> &mut dyn KvStore {
        if self.tree.len() == index {
            self.tree.push(Arc::new(make()));
        }
        writable(&mut self.tree[index])
    }

    fn accept_tree(&mut self, len: usize, path: &[usize]) {
        for (offset, &row) in path.iter().enumerate() {
            let source = Arc::clone(&self.tree[row / BLOCK_POSITIONS]);
            let position = len + offset;
            let target = self.block_mut(position / BLOCK_POSITIONS, || source.copy());
            target.copy_row(position % BLOCK_POSITIONS, source.as_ref().as_ref(), row % BLOCK_POSITIONS);
        }
    }

    fn drop_hidden(&mut self, len: usize) {
        let Some(keep) = self.keep else { return };
        let first = keep.sink.div_ceil(BLOCK_POSITIONS);
        let last = len.saturating_sub(keep.tail) / BLOCK_POSITIONS;
        for block in self.blocks.iter_mut().take(last).skip(first).rev() {
            // Blocks go in order, so the first empty one from the right ends the work of this step.
            if block.take().is_none() {
                break;
            }
        }
    }

    fn bytes(&self) -> usize {
        let held = |store: &Arc<Box<dyn KvStore>>| store.bytes();
        self.blocks.iter().flatten().map(held).sum::<usize>() + self.tree.iter().map(held).sum::<usize>()
    }
}

fn writable(block: &mut Arc<Box<dyn KvStore>>) -> &mut dyn KvStore {
    if Arc::get_mut(block).is_none() {
        *block = Arc::new(block.copy());
    }
    Arc::get_mut(block).expect("a block just made unique").as_mut()
}

/// State of one layer for one sequence.
pub enum LayerCache {
    /// Keys and values.
    Kv(KvCache),
    /// A state of fixed size.
    Recurrent(Box<dyn RecurrentStore>),
}

impl Clone for LayerCache {
    fn clone(&self) -> Self {
        match self {
            Self::Kv(cache) => Self::Kv(cache.clone()),
            Self::Recurrent(store) => Self::Recurrent(store.copy()),
        }
    }
}

impl LayerCache {
    /// The keys and values of an attention layer.
    ///
    /// # Panics
    /// When it is a recurrent one.
    pub fn kv(&self) -> &KvCache {
        let Self::Kv(cache) = self else { panic!("a layer with keys and values") };
        cache
    }

    /// The keys and values of an attention layer, for writing.
    ///
    /// # Panics
    /// When it is a recurrent one.
    pub fn kv_mut(&mut self) -> &mut KvCache {
        let Self::Kv(cache) = self else { panic!("a layer with keys and values") };
        cache
    }

    /// The state of a recurrent layer.
    ///
    /// # Panics
    /// When it is an attention layer.
    pub fn recurrent(&self) -> &dyn RecurrentStore {
        let Self::Recurrent(store) = self else { panic!("a recurrent layer") };
        store.as_ref()
    }

    /// The state of a recurrent layer, for writing.
    ///
    /// # Panics
    /// When it is an attention layer.
    pub fn recurrent_mut(&mut self) -> &mut dyn RecurrentStore {
        let Self::Recurrent(store) = self else { panic!("a recurrent layer") };
        store.as_mut()
    }

    /// Bytes that every further position takes: K/V in halves, nothing in a state of fixed size.
    pub fn bytes_per_position(&self) -> usize {
        match self {
            Self::Kv(cache) => 2 * 2 * cache.geometry.heads * cache.geometry.dim,
            Self::Recurrent(_) => 0,
        }
    }

    fn begin(&mut self, taped: bool) {
        if let Self::Recurrent(store) = self {
            store.begin(taped);
        }
    }

    /// Commits rows of a pass that began at position `start` and ends at `end`.
    fn accept(&mut self, start: usize, end: usize, rows: Accepted<'_>) {
        match (self, rows) {
            (Self::Recurrent(store), rows) => store.accept(rows),
            (Self::Kv(cache), Accepted::Path(path)) => {
                cache.accept_tree(start, path);
                cache.drop_hidden(end);
            }
            (Self::Kv(cache), Accepted::Chain(_)) => cache.drop_hidden(end),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Kv(cache) => cache.bytes(),
            Self::Recurrent(store) => store.bytes(),
        }
    }
}

/// State of one sequence in one model: what its committed tokens left behind in every layer.
///
/// Invariant: rows beyond [`SeqCache::len`] may hold rejected leftovers, but are never read as committed;
/// only accepting moves the length.
pub struct SeqCache {
    len: usize,
    pending: Option<usize>,
    layers: Vec<LayerCache>,
}

impl SeqCache {
    /// Of a sequence without tokens.
    pub fn new(layers: Vec<LayerCache>) -> Self {
        Self { len: 0, pending: None, layers }
    }

    /// Committed positions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Layer `index`.
    pub fn layer(&self, index: usize) -> &LayerCache {
        &self.layers[index]
    }

    /// Layer `index`, for a backend's operations.
    pub fn layer_mut(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Bytes held, shared blocks counted in full.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(LayerCache::bytes).sum()
    }

    /// Announces a forward pass of `rows` rows that accepting will settle, any part of them.
    ///
    /// # Panics
    /// When an earlier pass is not settled.
    pub fn begin_verify(&mut self, rows: usize) {
        self.begin(rows, rows > 1);
    }

    /// Announces a forward pass of `rows` rows that will be accepted whole or not at all, so that nothing is
    /// recorded to go back to.
    ///
    /// # Panics
    /// When an earlier pass is not settled.
    pub fn begin_prefill(&mut self, rows: usize) {
        self.begin(rows, false);
    }

    fn begin(&mut self, rows: usize, taped: bool) {
        assert!(self.pending.is_none(), "a pass is settled before the next one begins");
        self.pending = Some(rows);
        self.layers.iter_mut().for_each(|layer| layer.begin(taped));
    }

    /// Commits the first `rows` rows of the pass, a chain, and forgets the others.
    ///
    /// # Panics
    /// Without [`SeqCache::begin_verify`], or with more rows than the pass had.
    pub fn accept_chain(&mut self, rows: usize) {
        let pending = self.settle();
        assert!(rows <= pending, "{rows} of {pending} rows accepted");
        self.commit(rows, Accepted::Chain(rows));
    }

    /// Commits the rows on `path` of a tree (row numbers of the span, root first) and forgets the others.
    ///
    /// # Panics
    /// Without [`SeqCache::begin_verify`], or with a path that does not follow `parents`.
    pub fn accept_path(&mut self, parents: &[Option<usize>], path: &[usize]) {
        assert_eq!(self.settle(), parents.len(), "the pass had these rows");
        let mut last = None;
        for &row in path {
            assert_eq!(parents[row], last, "a path follows its parents");
            last = Some(row);
        }
        self.commit(path.len(), Accepted::Path(path));
    }

    fn settle(&mut self) -> usize {
        self.pending.take().expect("accept settles a pass that was begun")
    }

    fn commit(&mut self, count: usize, rows: Accepted<'_>) {
        let start = self.len;
        self.len += count;
        let end = self.len;
        self.layers.iter_mut().for_each(|layer| layer.accept(start, end, rows));
    }

    /// A copy of the committed state that shares all blocks.
    ///
    /// # Panics
    /// Between [`SeqCache::begin_verify`] and accepting.
    pub fn snapshot(&self) -> Self {
        assert!(self.pending.is_none(), "a snapshot is taken between passes");
        Self { len: self.len, pending: None, layers: self.layers.clone() }
    }

    /// Goes back to a snapshot of the same model.
    pub fn restore(&mut self, snapshot: &Self) {
        assert_eq!(self.layers.len(), snapshot.layers.len(), "a snapshot of the same model");
        *self = snapshot.snapshot();
    }
}
