use dflash_tensor::{Backend, Pre, Tensor};

use crate::attention::Attention;
use crate::conv::ShortConv;
use crate::delta::GatedDelta;
use crate::dense_layer::gain;
use crate::loader::{Loader, NormRule};
use crate::mlp::Mlp;
use crate::moe::Moe;
use crate::pass::{Pass, Sink};
use crate::{DenseLayer, ModelError};

/// Pre-norm decoder layer: a mixer of positions, then a feed-forward part, each added to the residual stream.
pub(crate) struct Layer {
    input_norm: Tensor,
    mixer: Mixer,
    post_norm: Tensor,
    ffn: FeedForward,
    eps: f32,
}

/// What mixes positions.
pub(crate) enum Mixer {
    /// Grouped-query attention.
    Attention(Attention),
    /// Gated DeltaNet.
    Delta(GatedDelta),
    /// A gated short convolution.
    Conv(ShortConv),
}

/// What works on each position alone.
pub(crate) enum FeedForward {
    /// A gated MLP.
    Dense(Mlp),
    /// A mixture of experts.
    Sparse(Moe),
}

impl Layer {
    /// Reads the norms of the layer whose tensors begin with `prefix` (without the dot) around its parts.
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        (hidden, eps, rule): (usize, f32, NormRule),
        mixer: Mixer,
        ffn: FeedForward,
    ) -> Result<Self, ModelError> {
        let mut norm = |name: &str| loader.gain(&format!("{prefix}.{name}.weight"), hidden, rule);
        let [input_norm, post_norm] = [norm("input_layernorm")?, norm("post_attention_layernorm")?];
        Ok(Self { input_norm, mixer, post_norm, ffn, eps })
    }

    /// What mixes positions.
    pub(crate) fn mixer(&self) -> &Mixer {
        &self.mixer
    }

    /// Its numbers; `None` where it has other parts than grouped-query attention and a gated MLP.
    pub(crate) fn dense(&self, backend: &dyn Backend) -> Option<DenseLayer> {
        let (Mixer::Attention(attention), FeedForward::Dense(mlp)) = (&self.mixer, &self.ffn) else {
            return None;
        };
        let layer = mlp.dense(backend, attention.dense(backend)?)?;
        let [input_norm, post_norm] = [&self.input_norm, &self.post_norm].map(|norm| gain(backend, norm));
        Some(DenseLayer { rms_norm_eps: self.eps, input_norm, post_norm, ..layer })
    }

    /// The residual stream goes in and comes out; layer `index` of the caches is this one's.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, index: usize) {
        let input = Pre::RmsNorm { weight: &self.input_norm, eps: self.eps };
        match &self.mixer {
            Mixer::Attention(attention) => attention.forward(pass, index, input, Sink::Residual),
            Mixer::Delta(delta) => delta.forward(pass, index, input, Sink::Residual),
            Mixer::Conv(conv) => conv.forward(pass, index, input, Sink::Residual),
        }
        let post = Pre::RmsNorm { weight: &self.post_norm, eps: self.eps };
        match &self.ffn {
            FeedForward::Dense(mlp) => mlp.forward(pass, post, Sink::Residual),
            FeedForward::Sparse(moe) => moe.forward(pass, &self.post_norm, self.eps),
        }
    }
}
