use dflash_tensor::{Activation, KvGeometry, Mask};

use super::DenseRules;
use crate::ModelError;
use crate::attention::AttentionShape;
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::json::Keys;
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;
use crate::refuse::{HARMLESS, Neutral, NeutralValue, neutral, note_unread, refuse, require_silu};
use crate::rope::{RopeConfig, RopeRules};
use crate::sparse::{self, SparsePlan};

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
    "use_sliding_window",
    "max_window_layers",
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
    neutral("no_rope_layer_interval", NeutralValue::Zero),
    neutral("no_rope_layers", NeutralValue::Nothing),
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
    neutral("use_mrope", NeutralValue::Nothing),
    neutral("use_qk_norm", NeutralValue::Nothing),
];

/// Keys of experts, in families without.
const EXPERTS: &[Neutral] = &[
    neutral("moe_intermediate_size", NeutralValue::Zero),
    neutral("num_experts", NeutralValue::Zero),
    neutral("num_experts_per_tok", NeutralValue::Zero),
    neutral("num_local_experts", NeutralValue::Zero),
];

/// Reads `config.json`; adds a note on keys that are not read.
pub(crate) fn from_json(
    rules: &DenseRules,
    config: &Keys<'_>,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    refuse(config, CHANGES)?;
    require_silu(config)?;
    match rules.experts {
        Some(_) => notes.extend(note_unread(config, &[READ, sparse::READ, HARMLESS], &[CHANGES])),
        None => {
            refuse(config, EXPERTS)?;
            notes.extend(note_unread(config, &[READ, HARMLESS], &[CHANGES, EXPERTS]));
        }
    }
    let context = config.required_size("max_position_embeddings")?;
    let windows = windows(rules, config)?;
    let attention = attention(rules, config)?;
    let sparse = sparse(rules, config)?;
    let layer = |(index, &window): (usize, &Option<usize>)| {
        let mixer = MixerPlan::Attention(Mask { window, ..Mask::CAUSAL });
        let ffn = match &sparse {
            Some(sparse) => sparse.ffn(index, || mlp(config))?,
            None => FfnPlan::Dense(mlp(config)?),
        };
        Ok(LayerPlan { mixer, ffn })
    };
    let layers = windows.iter().enumerate().map(layer).collect::<Result<_, ModelError>>()?;
    Ok(DecoderConfig {
        family: rules.family,
        hidden: attention.hidden,
        eps: attention.eps,
        vocab: config.required_size("vocab_size")?,
        context,
        rope: rope(rules, config, context, &windows)?,
        rotary: attention.kv.dim,
        attention,
        norms: NormRule::Plain,
        tied: config.flag("tie_word_embeddings")?,
        layers,
    })
}

fn sparse(rules: &DenseRules, config: &Keys<'_>) -> Result<Option<SparsePlan>, ModelError> {
    match rules.experts {
        Some(renormalise) => SparsePlan::read(config, false, renormalise),
        None => Ok(None),
    }
}

fn attention(rules: &DenseRules, config: &Keys<'_>) -> Result<AttentionShape, ModelError> {
    let hidden = config.required_size("hidden_size")?;
    let heads = config.required_size("num_attention_heads")?;
    let kv = geometry(config, hidden, heads)?;
    let bias = bias(config, "attention_bias")?;
    Ok(AttentionShape {
        hidden,
        heads,
        kv,
        scale: (kv.dim as f32).powf(-0.5),
        eps: config.epsilon("rms_norm_eps")?,
        qkv_bias: if rules.qkv_bias { BiasRule::Always } else { bias },
        output_bias: bias,
        head_norms: rules.head_norms.then_some(NormRule::Plain),
        output_gate: false,
        interleaved: false,
    })
}

fn mlp(config: &Keys<'_>) -> Result<MlpShape, ModelError> {
    Ok(MlpShape {
        hidden: config.required_size("hidden_size")?,
        ffn: config.required_size("intermediate_size")?,
        activation: Activation::Silu,
        bias: bias(config, "mlp_bias")?,
    })
}

fn bias(config: &Keys<'_>, key: &str) -> Result<BiasRule, ModelError> {
    Ok(if config.flag(key)? == Some(true) { BiasRule::Always } else { BiasRule::Never })
}

fn rope(
    rules: &DenseRules,
    config: &Keys<'_>,
    context: usize,
    windows: &[Option<usize>],
) -> Result<RopeConfig, ModelError> {
    let mut layer_types = Vec::new();
    if windows.iter().any(Option::is_some) {
        layer_types.push("sliding_attention");
    }
    if windows.iter().any(Option::is_none) {
        layer_types.push("full_attention");
    }
    let rules = RopeRules {
        kinds: rules.rope_kinds,
        base: Some(10_000.0),
        context,
        layer_types: &layer_types,
        partial: false,
        multimodal: false,
    };
    RopeConfig::read(config, &rules)
}

/// The sliding window of every layer that has one.
fn windows(rules: &DenseRules, config: &Keys<'_>) -> Result<Vec<Option<usize>>, ModelError> {
    let layers = config.layers()?;
    let kinds = layer_kinds(config, layers)?;
    if !rules.sliding {
        if config.get("sliding_window").is_some() {
            return Err(config.refused("sliding_window", ""));
        }
        if kinds.is_some_and(|kinds| kinds.contains(&true)) {
            return Err(config.refused("layer_types", "every layer has full attention"));
        }
        return Ok(vec![None; layers]);
    }
    let kinds = match kinds {
        Some(kinds) => kinds,
        None if config.flag("use_sliding_window")? == Some(true) => {
            let full = config.integer("max_window_layers", layers)?.unwrap_or(0);
            (0..layers).map(|layer| layer >= full).collect()
        }
        None => vec![false; layers],
    };
    let window = |sliding| match sliding {
        true => config.required_size("sliding_window").map(Some),
        false => Ok(None),
    };
    kinds.into_iter().map(window).collect()
}

/// Per layer whether `layer_types` calls it a sliding one.
fn layer_kinds(config: &Keys<'_>, layers: usize) -> Result<Option<Vec<bool>>, ModelError> {
    let slides = |name: &str| match name {
        "full_attention" => Some(false),
        "sliding_attention" => Some(true),
        _ => None,
    };
    config.layer_types(layers, slides, "full_attention and sliding_attention are")
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
