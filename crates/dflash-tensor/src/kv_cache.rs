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
    /// Appends its rows as bytes, [`KvStore::bytes`] of them, whose order is the backend's own.
    fn save(&self, out: &mut Vec<u8>);
    /// Takes rows that were saved; false where there are not as many bytes.
    fn load(&mut self, bytes: &[u8]) -> bool;
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

    /// Whether every block stays.
    pub(crate) fn keeps_all(&self) -> bool {
        self.keep.is_none()
    }

    /// Whether a copy of the first `len` positions can be made: all blocks are there that a row behind them sees.
    pub(crate) fn reaches(&self, len: usize) -> bool {
        let blocks = len.div_ceil(BLOCK_POSITIONS);
        (0..blocks).all(|index| !self.sees(len, index) || self.block(index).is_some())
    }

    /// A copy of the first `len` positions that shares their blocks, where [`KvCache::reaches`] them.
    pub(crate) fn prefix(&self, len: usize) -> Self {
        let kept = |(index, block): (usize, &Option<Arc<_>>)| block.clone().filter(|_| self.sees(len, index));
        let blocks = self.blocks.iter().enumerate().take(len.div_ceil(BLOCK_POSITIONS)).map(kept);
        Self { geometry: self.geometry, keep: self.keep, blocks: blocks.collect(), tree: Vec::new() }
    }

    /// Whether a row at position `len` sees anything of a block.
    fn sees(&self, len: usize, block: usize) -> bool {
        self.keep.is_none_or(|Keep { sink, tail }| {
            block < sink.div_ceil(BLOCK_POSITIONS) || block >= len.saturating_sub(tail) / BLOCK_POSITIONS
        })
    }

    /// Blocks that are there.
    pub(crate) fn held(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// Numbers of the blocks that are there, and all their rows as bytes.
    pub(crate) fn save(&self) -> (Vec<u32>, Vec<u8>) {
        let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
        for (number, block) in (0..).zip(&self.blocks) {
            let Some(block) = block else { continue };
            numbers.push(number);
            block.save(&mut bytes);
        }
        (numbers, bytes)
    }

    /// An empty cache like this one with blocks that were saved, for `len` positions; `None` where they do not fit.
    pub(crate) fn loaded(
        &self,
        len: usize,
        numbers: &[u32],
        bytes: &[u8],
        make: &dyn Fn(KvGeometry) -> Box<dyn KvStore>,
    ) -> Option<Self> {
        let mut cache = Self::new(self.geometry, self.keep);
        let count = len.div_ceil(BLOCK_POSITIONS);
        let sound = numbers.is_sorted_by(|one, other| one < other)
            && numbers.last().is_none_or(|&last| (last as usize) < count);
        let size = bytes.len().checked_div(numbers.len()).unwrap_or(0);
        if !sound || size * numbers.len() != bytes.len() {
            return None;
        }
        cache.blocks.resize_with(count, || None);
        for (&number, bytes) in numbers.iter().zip(bytes.chunks(size.max(1))) {
            let mut block = make(self.geometry);
            if !block.load(bytes) {
                return None;
            }
            cache.blocks[number as usize] = Some(Arc::new(block));
        }
        cache.reaches(len).then_some(cache)
    }

    /// Tells address and bytes of every block; clones share them.
    pub(crate) fn parts(&self, tell: &mut dyn FnMut(usize, usize)) {
        let blocks = self.blocks.iter().flatten().chain(&self.tree);
        blocks.for_each(|block| tell(Arc::as_ptr(block).addr(), block.bytes()));
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
