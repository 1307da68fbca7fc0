use std::any::Any;
use std::sync::Arc;

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

    pub(crate) fn accept_tree(&mut self, len: usize, path: &[usize]) {
        for (offset, &row) in path.iter().enumerate() {
            let source = Arc::clone(&self.tree[row / BLOCK_POSITIONS]);
            let position = len + offset;
            let target = self.block_mut(position / BLOCK_POSITIONS, || source.copy());
            target.copy_row(position % BLOCK_POSITIONS, source.as_ref().as_ref(), row % BLOCK_POSITIONS);
        }
    }

    pub(crate) fn drop_hidden(&mut self, len: usize) {
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

    pub(crate) fn bytes(&self) -> usize {
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
