//! The decoder that most families are: an embedding, pre-norm layers, a norm and a head.

mod config;
mod load;

use std::sync::Arc;

use dflash_tensor::{
    Among, Backend, BackendError, Batch, Choice, KvCache, LayerCache, Pre, RecurrentGeometry, SeqCache,
    Tensor, Weight,
};

use crate::dense_layer::gain;
use crate::layer::{Layer, Mixer};
use crate::pass::Pass;
use crate::{DenseLayer, Taps, Target, TargetSpec, Workspace};

pub(crate) use config::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
pub(crate) use load::load;

/// A loaded decoder.
pub(crate) struct Decoder {
    backend: Arc<dyn Backend>,
    spec: TargetSpec,
    embedding: Arc<Weight>,
    layers: Vec<Layer>,
    norm: Tensor,
    eps: f32,
    head: Arc<Weight>,
}

impl Decoder {
    fn recurrent(&self, geometry: RecurrentGeometry) -> LayerCache {
        LayerCache::Recurrent(self.backend.recurrent_state(geometry))
    }

    fn output_norm(&self) -> Pre<'_> {
        Pre::RmsNorm { weight: &self.norm, eps: self.eps }
    }
}

impl Target for Decoder {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn limit_vocab(&mut self, vocab: usize) {
        assert!((1..=self.spec.vocab).contains(&vocab), "{vocab} of {} ids", self.spec.vocab);
        self.spec.vocab = vocab;
    }

    fn new_cache(&self) -> SeqCache {
        let layer = |layer: &Layer| match layer.mixer() {
            Mixer::Attention(attention) => {
                LayerCache::Kv(KvCache::new(attention.geometry(), attention.keep()))
            }
            Mixer::Delta(delta) => self.recurrent(delta.geometry()),
            Mixer::Conv(conv) => self.recurrent(conv.geometry()),
        };
        SeqCache::new(self.layers.iter().map(layer).collect())
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
        backend.embed(&self.embedding, batch.ids(), 1.0, &mut ws.h);
        let mut pass = Pass { backend, batch, caches, ws };
        for (index, layer) in self.layers.iter().enumerate() {
            layer.forward(&mut pass, index);
            taps.iter_mut().for_each(|taps| taps.store(index, &pass.ws.h));
        }
        taps.iter().for_each(|taps| taps.end());
    }

    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError> {
        self.backend.choose(&self.head, &ws.h, rows, self.output_norm(), Among::first(self.spec.vocab), out)
    }

    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor) {
        self.backend.logits(&self.head, &ws.h, rows, self.output_norm(), out);
    }

    fn embedding(&self) -> &Arc<Weight> {
        &self.embedding
    }

    fn head(&self) -> &Arc<Weight> {
        &self.head
    }

    fn dense_layer(&self, index: usize) -> Option<DenseLayer> {
        self.layers.get(index)?.dense(self.backend.as_ref())
    }

    fn final_norm(&self) -> Option<Vec<f32>> {
        Some(gain(self.backend.as_ref(), &self.norm))
    }

    fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }
}
