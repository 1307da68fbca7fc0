//! Answers that depend on every bit of the logits.

use std::sync::Arc;

use dflash_models::{Taps, Target, TargetSpec, Workspace};
use dflash_tensor::{Backend, BackendError, Batch, Choice, SeqCache, Tensor, Weight};

/// A target that answers with a hash of its logits.
///
/// The random models of the tests like to repeat one id whatever came before, above all where embedding and
/// head are one table, and such an answer would hide a fault. Here one bit more or less in any logit of any
/// row is another id, and every answer after it is another one too.
pub struct Hashed(pub Box<dyn Target>);

impl Hashed {
    fn id(&self, row: &[f32]) -> u32 {
        // FNV-1a, whose low bits alone would see the low bits alone.
        let step = |hash: u64, x: &f32| (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        let hash = row.iter().fold(0xcbf2_9ce4_8422_2325, step);
        ((hash ^ (hash >> 32)) % row.len() as u64) as u32
    }
}

impl Target for Hashed {
    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError> {
        let mut logits = self.backend().tensor(rows.len(), self.head().rows());
        self.logits(ws, rows, &mut logits);
        out.extend((0..rows.len()).map(|row| {
            let row = &self.backend().read(&logits, row)[..self.spec().vocab];
            let id = self.id(row);
            Choice { id, logit: row[id as usize], logsumexp: 0.0 }
        }));
        Ok(())
    }

    fn spec(&self) -> &TargetSpec {
        self.0.spec()
    }

    fn limit_vocab(&mut self, vocab: usize) {
        self.0.limit_vocab(vocab);
    }

    fn new_cache(&self) -> SeqCache {
        self.0.new_cache()
    }

    fn workspace(&self) -> Workspace {
        self.0.workspace()
    }

    fn forward(
        &self,
        ws: &mut Workspace,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        taps: Option<&mut Taps>,
    ) {
        self.0.forward(ws, batch, caches, taps);
    }

    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor) {
        self.0.logits(ws, rows, out);
    }

    fn embedding(&self) -> &Arc<Weight> {
        self.0.embedding()
    }

    fn head(&self) -> &Arc<Weight> {
        self.0.head()
    }

    fn embedding_scale(&self) -> f32 {
        self.0.embedding_scale()
    }

    fn softcap(&self) -> Option<f32> {
        self.0.softcap()
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        self.0.backend()
    }
}
