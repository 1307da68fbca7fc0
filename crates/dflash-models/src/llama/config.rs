use dflash_tensor::{KvGeometry, RopeScaling};

use crate::ModelError;
use crate::gguf::Metadata;
use crate::json::Keys;
use crate::layer::BiasRule;
use crate::refuse::{HARMLESS, Neutral, NeutralValue, neutral, note_unread, refuse, require_silu};
use crate::rope::{RopeConfig, RopeRules};

/// What the mathematics of a Llama needs, whichever file it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LlamaConfig {
    pub(crate) hidden: usize,
    pub(crate) ffn: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv: KvGeometry,
    pub(crate) eps: f32,
    /// Valid token ids; the tables may have more rows.
    pub(crate) vocab: usize,
    /// Positions.
    pub(crate) context: usize,
    pub(crate) rope: RopeConfig,
    pub(crate) attention_bias: BiasRule,
    pub(crate) mlp_bias: BiasRule,
    /// `None` when the file does not say, so that the presence of a head decides.
    pub(crate) tied: Option<bool>,
    /// Rows of q and k stand in GGUF's interleaved order.
    pub(crate) interleaved: bool,
}

const READ: &[&str] = &[
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "vocab_size",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
    "hidden_act",
    "layer_types",
    "partial_rotary_factor",
    "sliding_window",
    "name_or_path",
];

/// Keys of relatives and forks of Llama that change the forward pass.
const CHANGES: &[Neutral] = &[
    neutral("alibi", NeutralValue::Nothing),
    neutral("attention_multiplier", NeutralValue::Nothing),
    neutral("attn_logit_softcapping", NeutralValue::Zero),
    neutral("clip_qkv", NeutralValue::Nothing),
    neutral("embedding_multiplier", NeutralValue::One),
    neutral("embedding_scale", NeutralValue::One),
    neutral("final_logit_softcapping", NeutralValue::Zero),
    neutral("layer_norm_eps", NeutralValue::Nothing),
    neutral("logit_scale", NeutralValue::One),
    neutral("logits_scaling", NeutralValue::One),
    neutral("moe_intermediate_size", NeutralValue::Zero),
    neutral("no_rope_layer_interval", NeutralValue::Zero),
    neutral("no_rope_layers", NeutralValue::Nothing),
    neutral("num_experts", NeutralValue::Zero),
    neutral("num_experts_per_tok", NeutralValue::Zero),
    neutral("num_local_experts", NeutralValue::Zero),
    neutral("output_multiplier", NeutralValue::One),
    neutral("parallel_residual", NeutralValue::Nothing),
    neutral("partial_rotary_factor", NeutralValue::One),
    neutral("per_layer_config", NeutralValue::Nothing),
    neutral("position_embedding_type", NeutralValue::Nothing),
    neutral("qk_layernorm", NeutralValue::Nothing),
    neutral("qk_norm", NeutralValue::Nothing),
    neutral("query_pre_attn_scalar", NeutralValue::Nothing),
    neutral("residual_multiplier", NeutralValue::One),
    neutral("rope_interleaved", NeutralValue::Nothing),
    neutral("rotary_pct", NeutralValue::One),
    neutral("sliding_window", NeutralValue::Nothing),
    neutral("use_qk_norm", NeutralValue::Nothing),
];

impl LlamaConfig {
    /// Reads `config.json`; adds a note on keys that are not read.
    pub(crate) fn from_json(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<Self, ModelError> {
        refuse(config, CHANGES)?;
        require_silu(config)?;
        refuse_layer_types(config)?;
        notes.extend(note_unread(config, &[READ, HARMLESS]));
        let context = config.required_size("max_position_embeddings")?;
        let rules = RopeRules {
            kinds: &["linear", "llama3"],
            base: Some(10_000.0),
            context,
            layer_types: &["full_attention"],
        };
        let bias = |key| Ok(if config.flag(key)? == Some(true) { BiasRule::Always } else { BiasRule::Never });
        let hidden = config.required_size("hidden_size")?;
        let heads = config.required_size("num_attention_heads")?;
        Ok(Self {
            hidden,
            ffn: config.required_size("intermediate_size")?,
            layers: config.required_size("num_hidden_layers")?,
            heads,
            kv: geometry(config, hidden, heads)?,
            eps: config.required_number("rms_norm_eps")?,
            vocab: config.required_size("vocab_size")?,
            context,
            rope: RopeConfig::read(config, &rules)?,
            attention_bias: bias("attention_bias")?,
            mlp_bias: bias("mlp_bias")?,
            tied: config.flag("tie_word_embeddings")?,
            interleaved: false,
        })
    }

    /// Reads GGUF metadata; `vocab` is the number of tokens, `factors` reads `rope_freqs` for a head width.
    pub(crate) fn from_gguf(
        metadata: &Metadata,
        vocab: usize,
        factors: impl FnOnce(usize) -> Result<Option<Vec<f32>>, ModelError>,
        notes: &mut Vec<String>,
    ) -> Result<Self, ModelError> {
        refuse_gguf(metadata)?;
        notes.extend(note_unread_gguf(metadata));
        let key = |name: &str| format!("llama.{name}");
        let size = |name: &str| metadata.required_size(&key(name));
        let (hidden, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let kv_heads = metadata.size(&key("attention.head_count_kv"))?.unwrap_or(heads);
        let eps = key("attention.layer_norm_rms_epsilon");
        let kv = gguf_geometry(metadata, hidden, heads, kv_heads)?;
        Ok(Self {
            hidden,
            ffn: size("feed_forward_length")?,
            layers: size("block_count")?,
            heads,
            kv,
            eps: metadata.number(&eps)?.ok_or_else(|| metadata.missing(&eps))?,
            vocab,
            context: size("context_length")?,
            rope: gguf_rope(metadata, factors(kv.dim)?)?,
            attention_bias: BiasRule::IfPresent,
            mlp_bias: BiasRule::IfPresent,
            tied: None,
            interleaved: true,
        })
    }
}

fn refuse_layer_types(config: &Keys<'_>) -> Result<(), ModelError> {
    let full = |value: &serde_json::Value| value.as_str() == Some("full_attention");
    match config.get("layer_types").map(|value| value.as_array().is_some_and(|list| list.iter().all(full))) {
        Some(false) => Err(config.refused("layer_types", "every layer has full attention")),
        _ => Ok(()),
    }
}

fn geometry(config: &Keys<'_>, hidden: usize, heads: usize) -> Result<KvGeometry, ModelError> {
    let kv_heads = config.size("num_key_value_heads")?.unwrap_or(heads);
    let dim = match config.size("head_dim")? {
        Some(dim) => dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(config.bad("num_attention_heads", "a divisor of hidden_size")),
    };
    if !heads.is_multiple_of(kv_heads) {
        return Err(config.bad("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    if !dim.is_multiple_of(2) {
        return Err(config.bad("head_dim", "an even number"));
    }
    Ok(KvGeometry { heads: kv_heads, dim })
}

fn gguf_geometry(
    metadata: &Metadata,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
) -> Result<KvGeometry, ModelError> {
    let keys = ["attention.key_length", "attention.value_length", "rope.dimension_count"];
    let [key_length, value_length, rotary] = keys.map(|name| format!("llama.{name}"));
    let dim = match metadata.size(&key_length)? {
        Some(dim) => dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(metadata.bad("llama.attention.head_count", "a divisor of the embedding length")),
    };
    for key in [value_length, rotary] {
        if metadata.size(&key)?.is_some_and(|other| other != dim) {
            return Err(metadata.refused(&key, "keys, values and rotary dimensions have one length"));
        }
    }
    if !heads.is_multiple_of(kv_heads) {
        return Err(metadata.bad("llama.attention.head_count_kv", "a divisor of the head count"));
    }
    if !dim.is_multiple_of(2) {
        return Err(metadata.bad(&key_length, "an even number"));
    }
    Ok(KvGeometry { heads: kv_heads, dim })
}

fn gguf_rope(metadata: &Metadata, factors: Option<Vec<f32>>) -> Result<RopeConfig, ModelError> {
    let base = metadata.number("llama.rope.freq_base")?.unwrap_or(10_000.0);
    if base <= 0.0 {
        return Err(metadata.bad("llama.rope.freq_base", "a positive number"));
    }
    let kind = metadata.text("llama.rope.scaling.type")?.unwrap_or("none");
    let scaling = match (kind, factors) {
        ("none", None) => RopeScaling::Default,
        ("none", Some(factors)) => RopeScaling::Factors(factors),
        ("linear", None) => RopeScaling::Linear { factor: gguf_factor(metadata)? },
        _ => return Err(metadata.refused("llama.rope.scaling.type", "none, linear and rope_freqs are")),
    };
    Ok(RopeConfig { base, scaling })
}

fn gguf_factor(metadata: &Metadata) -> Result<f32, ModelError> {
    let key = "llama.rope.scaling.factor";
    match metadata.number(key)? {
        Some(factor) if factor > 0.0 => Ok(factor),
        Some(_) => Err(metadata.bad(key, "a positive number")),
        None => Err(metadata.missing(key)),
    }
}

/// Keys that are read, or that repeat what tensors say.
const GGUF_READ: &[&str] = &[
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

fn note_unread_gguf(metadata: &Metadata) -> Option<String> {
    let known = |key: &str| {
        GGUF_CHANGES.iter().any(|(change, _)| *change == key)
            || key.strip_prefix("llama.").is_none_or(|name| GGUF_READ.contains(&name))
    };
    let unread = metadata.keys().filter(|key| !known(key)).collect::<Vec<_>>();
    (!unread.is_empty()).then(|| format!("GGUF keys that are not read: {}", unread.join(", ")))
}

/// Keys of relatives that share the architecture name, with the value that changes nothing.
const GGUF_CHANGES: [(&str, f32); 10] = [
    ("llama.attention.clamp_kqv", 0.0),
    ("llama.attention.scale", 0.0),
    ("llama.attention.sliding_window", 0.0),
    ("llama.embedding_scale", 1.0),
    ("llama.expert_count", 0.0),
    ("llama.expert_used_count", 0.0),
    ("llama.final_logit_softcapping", 0.0),
    ("llama.logit_scale", 1.0),
    ("llama.residual_scale", 1.0),
    ("llama.rope.scaling.attn_factor", 1.0),
];

fn refuse_gguf(metadata: &Metadata) -> Result<(), ModelError> {
    for (key, neutral) in GGUF_CHANGES {
        if metadata.number(key)?.is_some_and(|value| value != neutral) {
            return Err(metadata.refused(key, ""));
        }
    }
    Ok(())
}
