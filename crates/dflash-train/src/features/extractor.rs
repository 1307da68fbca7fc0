use std::sync::Arc;

use dflash_models::{Taps, Target, Workspace};
use dflash_tensor::{Batch, SeqCache, Shape};
use sha2::{Digest, Sha256};

/// Rows of a pass: more are not faster, and their activations leave the caches of the processor.
const ROWS: usize = 256;
/// Ids of which the fingerprint is made.
const PROBE: usize = 256;

/// Runs sequences through the target and gives away what the taps hold.
pub struct Extractor<'a> {
    target: &'a dyn Target,
    workspace: Workspace,
    taps: Taps,
    batch: Batch,
}

/// A sequence on its way through the target.
struct Begun<'a> {
    ids: &'a [u32],
    cache: SeqCache,
}

impl Begun<'_> {
    /// Ids that are to come.
    fn left(&self) -> usize {
        self.ids.len() - self.cache.len()
    }
}

impl<'a> Extractor<'a> {
    pub fn new(target: &'a dyn Target, taps: &[usize]) -> Self {
        let backend = Arc::clone(target.backend());
        let taps = Taps::new(backend, taps, target.spec().hidden);
        Self { target, workspace: target.workspace(), taps, batch: Batch::new() }
    }

    /// Gives every row of all sequences to `sink`, in order; `done` is told the rows of every pass after it.
    pub fn run(&mut self, sequences: &[&[u32]], sink: &mut dyn FnMut(&[f32]), done: &mut dyn FnMut(usize)) {
        let mut waiting = sequences.iter().filter(|ids| !ids.is_empty());
        // The last one may go on in the next pass.
        let mut begun: Vec<Begun<'_>> = Vec::new();
        loop {
            begun.retain(|seq| seq.left() > 0);
            let mut rows: usize = begun.iter().map(Begun::left).sum();
            while rows < ROWS
                && let Some(ids) = waiting.next()
            {
                begun.push(Begun { ids, cache: self.target.new_cache() });
                rows += ids.len();
            }
            if begun.is_empty() {
                return;
            }
            self.pass(&mut begun);
            let (backend, rows) = (self.target.backend(), self.taps.rows());
            (0..rows.rows()).for_each(|row| sink(&backend.read(rows, row)));
            done(rows.rows());
        }
    }

    /// A pass over as many rows of the sequences as it has room for.
    fn pass(&mut self, begun: &mut [Begun<'_>]) {
        self.batch.clear();
        for Begun { ids, cache } in begun.iter_mut() {
            let start = cache.len();
            let rows = (ids.len() - start).min(ROWS - self.batch.rows());
            self.batch.push(&ids[start..start + rows], start, Shape::Chain);
            cache.begin_prefill(rows);
        }
        let mut caches: Vec<&mut SeqCache> = begun.iter_mut().map(|seq| &mut seq.cache).collect();
        self.target.forward(&mut self.workspace, &self.batch, &mut caches, Some(&mut self.taps));
        let spans = self.batch.spans().iter();
        caches.into_iter().zip(spans).for_each(|(cache, span)| cache.accept_chain(span.rows));
    }

    /// A name for these taps of this very target: the hash of the features of some ids from all over the vocabulary.
    /// Other weights give other features, and so does a build that computes otherwise.
    pub fn fingerprint(&mut self) -> [u8; 32] {
        let spec = self.target.spec();
        let ids: Vec<u32> =
            (0..PROBE.min(spec.context)).map(|index| (index * spec.vocab / PROBE) as u32).collect();
        let mut hash = Sha256::new();
        let taps: Vec<u64> = self.taps.layers().iter().map(|&layer| layer as u64).collect();
        hash.update(bytemuck::cast_slice(&taps));
        self.run(&[&ids], &mut |row| hash.update(bytemuck::cast_slice(row)), &mut |_| ());
        hash.finalize().into()
    }
}
