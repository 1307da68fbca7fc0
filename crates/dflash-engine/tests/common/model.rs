//! A target whose rows are compared bit by bit.

use std::sync::Arc;

use dflash_cpu::Isa;
use dflash_models::{Taps, Target, Workspace};
use dflash_tensor::{Batch, LayerCache, SeqCache, Shape};

use super::cases::Case;

/// Bits of a row: the logits, and what every layer put out.
pub type Row = Vec<u32>;

/// A target with its scratch.
pub struct Model {
    pub target: Box<dyn Target>,
    pub workspace: Workspace,
    taps: Taps,
}

/// Plain decoding of some ids.
pub struct Truth {
    pub rows: Vec<Row>,
    /// What the first ids left, by their number.
    pub caches: Vec<SeqCache>,
}

impl Model {
    pub fn load(case: &Case) -> Self {
        Self::load_on(case, 2, Isa::detect())
    }

    pub fn load_on(case: &Case, threads: usize, isa: Isa) -> Self {
        let target = super::target_on(&case.path, threads, isa);
        let (workspace, spec) = (target.workspace(), target.spec());
        let layers = (0..spec.layers).collect::<Vec<_>>();
        let taps = Taps::new(Arc::clone(target.backend()), &layers, spec.hidden);
        Self { target, workspace, taps }
    }

    pub fn prompt(&self, len: usize, seed: u64) -> Vec<u32> {
        super::prompt(len, self.target.spec().vocab, seed)
    }

    /// `ids` up to `right` ids of them, then others, the next one surely wrong.
    pub fn drafted(&self, ids: &[u32], right: usize, seed: u64) -> Vec<u32> {
        let mut drafted = self.prompt(ids.len(), seed);
        drafted[..right].copy_from_slice(&ids[..right]);
        if right < ids.len() {
            drafted[right] = (ids[right] + 1) % self.target.spec().vocab as u32;
        }
        drafted
    }

    /// Runs spans on their caches, on which the pass has begun. The caller settles them.
    pub fn run(&mut self, batch: &Batch, caches: &mut [&mut SeqCache]) -> Vec<Row> {
        self.target.forward(&mut self.workspace, batch, caches, Some(&mut self.taps));
        let rows: Vec<usize> = (0..batch.rows()).collect();
        let backend = self.target.backend();
        let mut logits = backend.tensor(rows.len(), self.target.head().rows());
        self.target.logits(&self.workspace, &rows, &mut logits);
        let values = |&row| [backend.read(&logits, row), backend.read(self.taps.rows(), row)].concat();
        rows.iter().map(|row| values(row).into_iter().map(f32::to_bits).collect()).collect()
    }

    /// A pass over a chain of which `accept` rows are accepted.
    pub fn chain(&mut self, cache: &mut SeqCache, ids: &[u32], accept: usize) -> Vec<Row> {
        cache.begin_verify(ids.len());
        let rows = self.span(cache, ids, Shape::Chain);
        cache.accept_chain(accept);
        rows
    }

    /// A pass over a part of a prompt.
    pub fn prefill(&mut self, cache: &mut SeqCache, ids: &[u32]) -> Vec<Row> {
        cache.begin_prefill(ids.len());
        let rows = self.span(cache, ids, Shape::Chain);
        cache.accept_chain(ids.len());
        rows
    }

    /// A pass over a tree of which the rows on `path` are accepted.
    pub fn tree(
        &mut self,
        cache: &mut SeqCache,
        ids: &[u32],
        parents: &[Option<usize>],
        path: &[usize],
    ) -> Vec<Row> {
        cache.begin_verify(ids.len());
        let rows = self.span(cache, ids, Shape::Tree(parents.to_vec()));
        cache.accept_path(parents, path);
        rows
    }

    fn span(&mut self, cache: &mut SeqCache, ids: &[u32], shape: Shape) -> Vec<Row> {
        let mut batch = Batch::new();
        batch.push(ids, cache.len(), shape);
        self.run(&batch, &mut [cache])
    }

    /// One row at a time.
    pub fn plain(&mut self, ids: &[u32]) -> Truth {
        let mut cache = self.target.new_cache();
        let mut truth = Truth { rows: Vec::new(), caches: vec![cache.snapshot()] };
        for &id in ids {
            truth.rows.extend(self.chain(&mut cache, &[id], 1));
            truth.caches.push(cache.snapshot());
        }
        truth
    }
}

/// Whether two caches hold the same positions in every layer.
pub fn same_positions(a: &SeqCache, b: &SeqCache) -> bool {
    let blocks = a.len().div_ceil(dflash_tensor::BLOCK_POSITIONS);
    let held = |cache: &SeqCache, layer| match cache.layer(layer) {
        LayerCache::Kv(kv) => (0..blocks).map(|index| kv.block(index).is_some()).collect(),
        LayerCache::Recurrent(_) => Vec::new(),
    };
    a.len() == b.len()
        && a.layers() == b.layers()
        && (0..a.layers()).all(|layer| held(a, layer) == held(b, layer))
}
