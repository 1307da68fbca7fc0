use dflash_tensor::{Activation, KvGeometry, Mask, RopeScaling};

use super::DenseRules;
use crate::ModelError;
use crate::attention::AttentionShape;
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::gguf::Metadata;
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;
use crate::rope::RopeConfig;

/// Reads GGUF metadata; `vocab` is the number of tokens, `factors` reads `rope_freqs` for a head width.
pub(crate) fn from_gguf(
    rules: &DenseRules,
    metadata: &Metadata,
    vocab: usize,
    factors: impl FnOnce(usize) -> Result<Option<Vec<f32>>, ModelError>,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    let reader = Reader { arch: rules.family, metadata };
    reader.refuse()?;
    notes.extend(reader.note_unread());
    let attention = reader.attention(rules)?;
    let mlp = MlpShape {
        hidden: attention.hidden,
        ffn: reader.size("feed_forward_length")?,
        activation: Activation::Silu,
        bias: BiasRule::IfPresent,
    };
    let layer = LayerPlan { mixer: MixerPlan::Attention(Mask::CAUSAL), ffn: FfnPlan::Dense(mlp) };
    Ok(DecoderConfig {
        family: rules.family,
        hidden: attention.hidden,
        eps: attention.eps,
        vocab,
        context: reader.size("context_length")?,
        rope: reader.rope(factors(attention.kv.dim)?)?,
        rotary: attention.kv.dim,
        attention,
        norms: NormRule::Plain,
        tied: None,
        layers: vec![layer; reader.size("block_count")?],
    })
}

/// Metadata under the prefix of an architecture.
struct Reader<'a> {
    arch: &'static str,
    metadata: &'a Metadata,
}

impl Reader<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    fn size(&self, name: &str) -> Result<usize, ModelError> {
        self.metadata.required_size(&self.key(name))
    }

    fn attention(&self, rules: &DenseRules) -> Result<AttentionShape, ModelError> {
        let (hidden, heads) = (self.size("embedding_length")?, self.size("attention.head_count")?);
        let kv = self.geometry(hidden, heads)?;
        let eps = self.key("attention.layer_norm_rms_epsilon");
        Ok(AttentionShape {
            hidden,
            heads,
            kv,
            scale: (kv.dim as f32).powf(-0.5),
            eps: self.metadata.number(&eps)?.ok_or_else(|| self.metadata.missing(&eps))?,
            qkv_bias: if rules.qkv_bias { BiasRule::Always } else { BiasRule::IfPresent },
            output_bias: BiasRule::IfPresent,
            head_norms: rules.head_norms.then_some(NormRule::Plain),
            output_gate: false,
            interleaved: rules.gguf_interleaved,
        })
    }

    fn geometry(&self, hidden: usize, heads: usize) -> Result<KvGeometry, ModelError> {
        let keys = ["attention.key_length", "attention.value_length", "rope.dimension_count"];
        let [key_length, value_length, rotary] = keys.map(|name| self.key(name));
        let (metadata, count) = (self.metadata, |name: &str| self.key(&format!("attention.{name}")));
        let kv_heads = metadata.size(&count("head_count_kv"))?.unwrap_or(heads);
        let dim = match metadata.size(&key_length)? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => return Err(metadata.bad(&count("head_count"), "a divisor of the embedding length")),
        };
        for key in [value_length, rotary] {
            if metadata.size(&key)?.is_some_and(|other| other != dim) {
                return Err(metadata.refused(&key, "keys, values and rotary dimensions have one length"));
            }
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(metadata.bad(&count("head_count_kv"), "a divisor of the head count"));
        }
        if !dim.is_multiple_of(2) {
            return Err(metadata.bad(&key_length, "an even number"));
        }
        Ok(KvGeometry { heads: kv_heads, dim })
    }

    fn rope(&self, factors: Option<Vec<f32>>) -> Result<RopeConfig, ModelError> {
        let base_key = self.key("rope.freq_base");
        let base = self.metadata.number(&base_key)?.unwrap_or(10_000.0);
        if base <= 0.0 {
            return Err(self.metadata.bad(&base_key, "a positive number"));
        }
        let kind_key = self.key("rope.scaling.type");
        let scaling = match (self.metadata.text(&kind_key)?.unwrap_or("none"), factors) {
            ("none", None) => RopeScaling::Default,
            ("none", Some(factors)) => RopeScaling::Factors(factors),
            ("linear", None) => RopeScaling::Linear { factor: self.factor()? },
            _ => return Err(self.metadata.refused(&kind_key, "none, linear and rope_freqs are")),
        };
        Ok(RopeConfig { base, scaling })
    }

    fn factor(&self) -> Result<f32, ModelError> {
        let key = self.key("rope.scaling.factor");
        match self.metadata.number(&key)? {
            Some(factor) if factor > 0.0 => Ok(factor),
            Some(_) => Err(self.metadata.bad(&key, "a positive number")),
            None => Err(self.metadata.missing(&key)),
        }
    }

    fn note_unread(&self) -> Option<String> {
        let known = |key: &str| {
            let name = key.strip_prefix(self.arch).and_then(|rest| rest.strip_prefix('.'));
            name.is_none_or(|name| READ.contains(&name) || CHANGES.iter().any(|(change, _)| *change == name))
        };
        let unread = self.metadata.keys().filter(|key| !known(key)).collect::<Vec<_>>();
        (!unread.is_empty()).then(|| format!("GGUF keys that are not read: {}", unread.join(", ")))
    }

    fn refuse(&self) -> Result<(), ModelError> {
        for (name, neutral) in CHANGES {
            let key = self.key(name);
            if self.metadata.number(&key)?.is_some_and(|value| value != neutral) {
                return Err(self.metadata.refused(&key, ""));
            }
        }
        Ok(())
    }
}

/// Keys that are read, or that repeat what tensors say.
const READ: &[&str] = &[
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "vocab_size",
];

/// Keys of relatives that share the architecture name, with the value that changes nothing.
const CHANGES: [(&str, f32); 10] = [
    ("attention.clamp_kqv", 0.0),
    ("attention.scale", 0.0),
    ("attention.sliding_window", 0.0),
    ("embedding_scale", 1.0),
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("final_logit_softcapping", 0.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("rope.scaling.attn_factor", 1.0),
];
