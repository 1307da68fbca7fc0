use std::sync::Arc;

use dflash_tensor::{
    Among, Backend, BackendError, Batch, Choice, KvCache, LayerCache, Pre, SeqCache, Tensor, Weight,
};

use super::inputs::LayerInputs;
use super::layer::Layer;
use crate::pass::Pass;
use crate::{Taps, Target, TargetSpec, Workspace};

/// A loaded Gemma 4.
pub(super) struct Gemma4 {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) spec: TargetSpec,
    pub(super) embedding: Arc<Weight>,
    /// Of the embeddings.
    pub(super) scale: f32,
    pub(super) inputs: Option<LayerInputs>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Tensor,
    pub(super) eps: f32,
    pub(super) head: Arc<Weight>,
    pub(super) softcap: Option<f32>,
}

impl Gemma4 {
    fn final_norm(&self) -> Pre<'_> {
        Pre::RmsNorm { weight: &self.norm, eps: self.eps }
    }
}

impl Target for Gemma4 {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn limit_vocab(&mut self, vocab: usize) {
        assert!((1..=self.spec.vocab).contains(&vocab), "{vocab} of {} ids", self.spec.vocab);
        self.spec.vocab = vocab;
    }

    /// Layers that read the keys of others come last and have no cache.
    fn new_cache(&self) -> SeqCache {
        let own = self.layers.iter().enumerate().filter(|(index, layer)| layer.cache == *index);
        let cache = |(_, layer): (usize, &Layer)| {
            LayerCache::Kv(KvCache::new(layer.attention.geometry(), layer.attention.keep()))
        };
        SeqCache::new(own.map(cache).collect())
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(Arc::clone(&self.backend), self.spec.hidden)
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
        backend.embed(&self.embedding, batch.ids(), self.scale, &mut ws.h);
        let mut pass = Pass { backend, batch, caches, ws };
        let inputs = self.inputs.as_ref().map(|inputs| inputs.forward(&mut pass));
        for (index, layer) in self.layers.iter().enumerate() {
            layer.forward(&mut pass, inputs.as_ref());
            taps.iter_mut().for_each(|taps| taps.store(index, &pass.ws.h));
        }
        pass.ws.put(inputs);
        taps.iter().for_each(|taps| taps.end());
    }

    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError> {
        let among = Among { vocab: self.spec.vocab, softcap: self.softcap };
        self.backend.choose(&self.head, &ws.h, rows, self.final_norm(), among, out)
    }

    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor) {
        self.backend.logits(&self.head, &ws.h, rows, self.final_norm(), out);
        if let Some(cap) = self.softcap {
            self.backend.softcap(cap, out);
        }
    }

    fn embedding(&self) -> &Arc<Weight> {
        &self.embedding
    }

    fn head(&self) -> &Arc<Weight> {
        &self.head
    }

    fn embedding_scale(&self) -> f32 {
        self.scale
    }

    fn softcap(&self) -> Option<f32> {
        self.softcap
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }
}
