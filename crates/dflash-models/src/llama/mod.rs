//! The Llama family: the dense decoder that other families are told apart from.

mod config;
mod gguf;
mod load;

use std::sync::Arc;

use dflash_tensor::{
    Among, Backend, BackendError, Batch, Choice, KvCache, KvGeometry, LayerCache, Pre, SeqCache, Tensor,
    Weight,
};

use crate::layer::DenseLayer;
use crate::workspace::Widths;
use crate::{Taps, Target, TargetSpec, Workspace};

pub(crate) use load::{from_gguf, from_hf};

/// A loaded Llama.
pub(crate) struct Llama {
    backend: Arc<dyn Backend>,
    spec: TargetSpec,
    widths: Widths,
    kv: KvGeometry,
    embedding: Arc<Weight>,
    layers: Vec<DenseLayer>,
    norm: Tensor,
    eps: f32,
    head: Arc<Weight>,
}

impl Llama {
    fn final_norm(&self) -> Pre<'_> {
        Pre::RmsNorm { weight: &self.norm, eps: self.eps }
    }
}

impl Target for Llama {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn limit_vocab(&mut self, vocab: usize) {
        assert!((1..=self.spec.vocab).contains(&vocab), "{vocab} of {} ids", self.spec.vocab);
        self.spec.vocab = vocab;
    }

    fn new_cache(&self) -> SeqCache {
        let layer = |_| LayerCache::Kv(KvCache::new(self.kv, None));
        SeqCache::new((0..self.layers.len()).map(layer).collect())
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(Arc::clone(&self.backend), self.widths)
    }

    fn forward(
        &self,
        ws: &mut Workspace,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        mut taps: Option<&mut Taps>,
    ) {
        let backend = self.backend.as_ref();
        ws.begin(batch.rows());
        taps.iter_mut().for_each(|taps| taps.begin(batch.rows()));
        backend.embed(&self.embedding, batch.ids(), 1.0, &mut ws.h);
        for (index, layer) in self.layers.iter().enumerate() {
            layer.forward(backend, index, batch, caches, ws);
            taps.iter_mut().for_each(|taps| taps.store(index, &ws.h));
        }
        taps.iter().for_each(|taps| taps.end());
    }

    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError> {
        self.backend.choose(&self.head, &ws.h, rows, self.final_norm(), Among::first(self.spec.vocab), out)
    }

    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor) {
        self.backend.logits(&self.head, &ws.h, rows, self.final_norm(), out);
    }

    fn embedding(&self) -> &Arc<Weight> {
        &self.embedding
    }

    fn head(&self) -> &Arc<Weight> {
        &self.head
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }
}
