//! The block that a row of a tree sees: committed keys and those of its path, each in the lane that its
//! position has in a chain.

use dflash_tensor::{BLOCK_POSITIONS, KvCache, Shape, Span};
use half::f16;

use super::kernel::KvHead;
use crate::kv::{KvBlock, copy_slot};

/// One head of a block put together for one row after another.
#[derive(Default)]
pub(crate) struct PathBlock {
    keys: Vec<f16>,
    values: Vec<f16>,
    block: usize,
    head: usize,
}

impl PathBlock {
    /// Begins block `block` with what of it is committed. Slots of no visible key hold anything.
    pub(crate) fn begin(&mut self, cache: &KvCache, span: &Span, block: usize, head: usize) {
        let len = cache.geometry().dim * BLOCK_POSITIONS;
        (self.block, self.head) = (block, head);
        self.keys.resize(len, f16::ZERO);
        self.values.resize(len, f16::ZERO);
        let committed = block * BLOCK_POSITIONS < span.start;
        if let Some(store) = cache.block(block).filter(|_| committed) {
            let store = KvBlock::of(store);
            self.keys.copy_from_slice(store.keys(head));
            self.values.copy_from_slice(store.values(head));
        }
    }

    /// Puts in the keys on the path of row `row`, which stands at `position`.
    pub(crate) fn gather(&mut self, cache: &KvCache, span: &Span, row: usize, position: usize) {
        let Shape::Tree(parents) = &span.shape else { unreachable!("only trees have paths") };
        let path = std::iter::successors(Some(row), |&row| parents[row]);
        for (row, position) in path.zip((0..=position).rev()) {
            if position / BLOCK_POSITIONS == self.block {
                let store = cache.tree_block(row / BLOCK_POSITIONS).expect("the rows of a tree are appended");
                let store = KvBlock::of(store);
                let (keys, values) = (store.keys(self.head), store.values(self.head));
                let slot = position % BLOCK_POSITIONS;
                copy_slot(&mut self.keys, &mut self.values, slot, keys, values, row % BLOCK_POSITIONS);
            }
        }
    }

    /// The head as it stands.
    pub(crate) fn head(&self) -> KvHead<'_> {
        KvHead { keys: &self.keys, values: &self.values }
    }
}
