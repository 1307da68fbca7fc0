use dflash_tensor::{KvGeometry, RopeScaling};

use crate::ModelError;
use crate::attention::AttentionShape;
use crate::gguf::Metadata;
use crate::loader::BiasRule;
use crate::rope::RopeConfig;

/// GGUF metadata under the prefix of an architecture.
pub(crate) struct ArchKeys<'a> {
    /// The prefix, without the dot.
    pub(crate) arch: &'static str,
    /// All metadata.
    pub(crate) metadata: &'a Metadata,
}

impl ArchKeys<'_> {
    /// The whole key.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    /// A required size.
    pub(crate) fn size(&self, name: &str) -> Result<usize, ModelError> {
        self.metadata.required_size(&self.key(name))
    }

    /// `block_count`.
    pub(crate) fn blocks(&self) -> Result<usize, ModelError> {
        self.metadata.layers(&self.key("block_count"))
    }

    /// A size that may be absent.
    pub(crate) fn optional_size(&self, name: &str) -> Result<Option<usize>, ModelError> {
        self.metadata.size(&self.key(name))
    }

    /// A required number.
    pub(crate) fn number(&self, name: &str) -> Result<f32, ModelError> {
        let key = self.key(name);
        self.metadata.number(&key)?.ok_or_else(|| self.metadata.missing(&key))
    }

    /// The number of key/value heads; of a list with one entry per layer, zero where a layer has none, the
    /// one number that the others share.
    pub(crate) fn kv_heads(&self, heads: usize) -> Result<usize, ModelError> {
        let key = self.key("attention.head_count_kv");
        let Some(list) = self.metadata.integers(&key).ok().flatten() else {
            return Ok(self.metadata.size(&key)?.unwrap_or(heads));
        };
        let mut counts = list.iter().copied().filter(|&count| count > 0);
        let first = counts.next().ok_or_else(|| self.metadata.bad(&key, "a number above zero"))?;
        match counts.all(|count| count == first) {
            true => usize::try_from(first).map_err(|_| self.metadata.bad(&key, "numbers of heads")),
            false => Err(self.metadata.refused(&key, "attention layers have one number of heads")),
        }
    }

    /// Sizes of attention. Biases are read where the file holds them, norms are stored as they are.
    pub(crate) fn attention(&self) -> Result<AttentionShape, ModelError> {
        let (hidden, heads) = (self.size("embedding_length")?, self.size("attention.head_count")?);
        let kv = self.geometry(hidden, heads)?;
        Ok(AttentionShape {
            hidden,
            heads,
            kv,
            scale: (kv.dim as f32).powf(-0.5),
            eps: self.metadata.epsilon(&self.key("attention.layer_norm_rms_epsilon"))?,
            qkv_bias: BiasRule::IfPresent,
            output_bias: BiasRule::IfPresent,
            head_norms: None,
            output_gate: false,
            interleaved: false,
        })
    }

    fn geometry(&self, hidden: usize, heads: usize) -> Result<KvGeometry, ModelError> {
        let (metadata, key) = (self.metadata, |name: &str| self.key(&format!("attention.{name}")));
        let kv_heads = self.kv_heads(heads)?;
        let dim = match metadata.size(&key("key_length"))? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => return Err(metadata.bad(&key("head_count"), "a divisor of the embedding length")),
        };
        if metadata.size(&key("value_length"))?.is_some_and(|other| other != dim) {
            return Err(metadata.refused(&key("value_length"), "keys and values have one length"));
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(metadata.bad(&key("head_count_kv"), "a divisor of the head count"));
        }
        if !dim.is_multiple_of(2) {
            return Err(metadata.bad(&key("key_length"), "an even number"));
        }
        Ok(KvGeometry { heads: kv_heads, dim })
    }

    /// Leading dimensions of a head of `dim` that turn.
    pub(crate) fn rotary(&self, dim: usize) -> Result<usize, ModelError> {
        let rotary = self.optional_size("rope.dimension_count")?.unwrap_or(dim);
        match rotary <= dim && rotary.is_multiple_of(2) {
            true => Ok(rotary),
            false => {
                let expected = format!("an even number up to the head width {dim}");
                Err(self.metadata.bad(&self.key("rope.dimension_count"), &expected))
            }
        }
    }

    /// The rotary embedding; `factors` are the divisors that the file holds as a tensor.
    pub(crate) fn rope(&self, factors: Option<Vec<f32>>) -> Result<RopeConfig, ModelError> {
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
        Ok(RopeConfig::new(base, scaling))
    }

    fn factor(&self) -> Result<f32, ModelError> {
        match self.number("rope.scaling.factor")? {
            factor if factor > 0.0 => Ok(factor),
            _ => Err(self.metadata.bad(&self.key("rope.scaling.factor"), "a positive number")),
        }
    }

    /// A note on keys of the architecture that are in none of the lists.
    pub(crate) fn note_unread(&self, read: &[&[&str]]) -> Option<String> {
        let known = |key: &str| {
            let name = key.strip_prefix(self.arch).and_then(|rest| rest.strip_prefix('.'));
            name.is_none_or(|name| {
                read.iter().any(|list| list.contains(&name)) || CHANGES.iter().any(|(key, _)| *key == name)
            })
        };
        let unread = self.metadata.keys().filter(|key| !known(key)).collect::<Vec<_>>();
        (!unread.is_empty()).then(|| format!("GGUF keys that are not read: {}", unread.join(", ")))
    }

    /// Fails on a key that changes the mathematics, unless it is among those that are read.
    pub(crate) fn refuse(&self, read: &[&[&str]]) -> Result<(), ModelError> {
        for (name, neutral) in CHANGES {
            let key = self.key(name);
            let is_read = read.iter().any(|list| list.contains(&name));
            if !is_read && self.metadata.number(&key)?.is_some_and(|value| value != neutral) {
                return Err(self.metadata.refused(&key, ""));
            }
        }
        Ok(())
    }
}

/// Keys of all architectures that are read, or that repeat what tensors say.
pub(crate) const READ: &[&str] = &[
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
