use dflash_tensor::Mask;

use crate::attention::AttentionShape;
use crate::conv::ConvShape;
use crate::delta::DeltaShape;
use crate::loader::NormRule;
use crate::mlp::MlpShape;
use crate::moe::MoeShape;
use crate::rope::RopeConfig;

/// What the mathematics of a decoder needs, whichever file it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecoderConfig {
    /// Structural kind: the `model_type` of the family.
    pub(crate) family: &'static str,
    pub(crate) hidden: usize,
    pub(crate) eps: f32,
    /// Valid token ids; the tables may have more rows.
    pub(crate) vocab: usize,
    /// Positions.
    pub(crate) context: usize,
    pub(crate) rope: RopeConfig,
    /// Leading dimensions of a head that turn.
    pub(crate) rotary: usize,
    /// Of all attention layers.
    pub(crate) attention: AttentionShape,
    /// How the file stores the gains of layer norms and of the final norm.
    pub(crate) norms: NormRule,
    /// `None` when the file does not say, so that the presence of a head decides.
    pub(crate) tied: Option<bool>,
    pub(crate) layers: Vec<LayerPlan>,
}

/// The parts of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerPlan {
    pub(crate) mixer: MixerPlan,
    pub(crate) ffn: FfnPlan,
}

/// What mixes positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MixerPlan {
    /// Attention with this mask.
    Attention(Mask),
    /// Gated DeltaNet.
    Delta(DeltaShape),
    /// A gated short convolution.
    Conv(ConvShape),
}

/// What works on each position alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FfnPlan {
    /// A gated MLP.
    Dense(MlpShape),
    /// A mixture of experts.
    Sparse(MoeShape),
}

impl DecoderConfig {
    /// Sets how the file stores the gains of all norms, those of query and key heads included.
    pub(crate) fn set_norms(&mut self, rule: NormRule) {
        self.norms = rule;
        self.attention.head_norms = self.attention.head_norms.map(|_| rule);
    }
}
