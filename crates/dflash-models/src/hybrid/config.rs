use dflash_tensor::{Activation, DeltaGeometry, KeyHeadMap, KvGeometry, Mask};

use super::HybridRules;
use crate::ModelError;
use crate::attention::AttentionShape;
use crate::conv::MAX_KERNEL;
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::delta::{DeltaProjections, DeltaShape};
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
    "partial_rotary_factor",
    "attention_bias",
    "tie_word_embeddings",
    "hidden_act",
    "layer_types",
    "full_attention_interval",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "output_gate_type",
];

/// Keys that say nothing of the text model's forward pass.
const OTHER_PARTS: &[&str] = &[
    "attn_output_gate",
    "image_token_id",
    "language_model_only",
    "mamba_ssm_dtype",
    "mlp_only_layers",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "text_config",
    "video_token_id",
    "vision_config",
    "vision_end_token_id",
    "vision_start_token_id",
];

/// Keys that change the forward pass.
const CHANGES: &[Neutral] = &[
    neutral("attn_logit_softcapping", NeutralValue::Zero),
    neutral("final_logit_softcapping", NeutralValue::Zero),
    neutral("mlp_bias", NeutralValue::Nothing),
    neutral("sliding_window", NeutralValue::Nothing),
];

/// Reads `config.json`, flat or with the text model in `text_config`; adds a note on keys that are not read.
pub(super) fn from_json(
    rules: &HybridRules,
    config: &Keys<'_>,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    let text = config.object("text_config")?;
    let tied = config.same_flag(text.as_ref().unwrap_or(config), "tie_word_embeddings")?;
    if let Some(text) = &text {
        require_kind(rules, text)?;
        notes.extend(note_unread(config, &[OTHER_PARTS, HARMLESS, &["tie_word_embeddings"]], &[]));
        return from_text(rules, text, tied, notes);
    }
    from_text(rules, config, tied, notes)
}

/// The text model inside is one of the family that the file as a whole names.
fn require_kind(rules: &HybridRules, text: &Keys<'_>) -> Result<(), ModelError> {
    let fits = |kind: &str| kind.strip_suffix("_text").unwrap_or(kind) == rules.family;
    match text.text("model_type")? {
        Some(kind) if !fits(kind) => Err(text.refused("model_type", "the text model of that family is")),
        _ => Ok(()),
    }
}

fn from_text(
    rules: &HybridRules,
    config: &Keys<'_>,
    tied: Option<bool>,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    refuse(config, CHANGES)?;
    require_silu(config)?;
    require_gate(config)?;
    notes.extend(note_unread(config, &[READ, OTHER_PARTS, sparse::READ, HARMLESS], &[CHANGES]));
    let context = config.required_size("max_position_embeddings")?;
    let attention = attention(config)?;
    let rope = rope(config, context)?;
    Ok(DecoderConfig {
        family: rules.family,
        hidden: attention.hidden,
        eps: attention.eps,
        vocab: config.required_size("vocab_size")?,
        context,
        rotary: rope.rotary(config, attention.kv.dim)?,
        rope,
        norms: NormRule::Plain,
        tied,
        layers: layers(rules, config, attention.eps)?,
        attention,
    })
}

/// Every attention layer has an output gate, and so has every recurrent one, of one kind.
fn require_gate(config: &Keys<'_>) -> Result<(), ModelError> {
    if config.flag("attn_output_gate")? == Some(false) {
        return Err(config.refused("attn_output_gate", "attention has an output gate"));
    }
    match config.text("output_gate_type")? {
        None | Some("swish" | "silu") => Ok(()),
        Some(_) => Err(config.refused("output_gate_type", "swish is")),
    }
}

fn rope(config: &Keys<'_>, context: usize) -> Result<RopeConfig, ModelError> {
    let rules = RopeRules {
        kinds: &["linear", "yarn"],
        base: None,
        context,
        layer_types: &[],
        partial: true,
        multimodal: true,
    };
    let rope = RopeConfig::read(config, &rules)?;
    // Toolkits take a quarter of the head where a file does not say, others the whole.
    if rope.partial.is_none() {
        return Err(config.missing("rope_parameters.partial_rotary_factor"));
    }
    Ok(rope)
}

fn attention(config: &Keys<'_>) -> Result<AttentionShape, ModelError> {
    let heads = config.required_size("num_attention_heads")?;
    let kv = KvGeometry {
        heads: config.required_size("num_key_value_heads")?,
        dim: config.required_size("head_dim")?,
    };
    if !heads.is_multiple_of(kv.heads) {
        return Err(config.bad("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    let bias = match config.flag("attention_bias")? {
        Some(true) => BiasRule::Always,
        _ => BiasRule::Never,
    };
    Ok(AttentionShape {
        hidden: config.required_size("hidden_size")?,
        heads,
        kv,
        scale: (kv.dim as f32).powf(-0.5),
        eps: config.epsilon("rms_norm_eps")?,
        qkv_bias: bias,
        output_bias: bias,
        head_norms: Some(NormRule::Plain),
        output_gate: true,
        interleaved: false,
    })
}

fn layers(rules: &HybridRules, config: &Keys<'_>, eps: f32) -> Result<Vec<LayerPlan>, ModelError> {
    let sparse = if rules.experts { SparsePlan::read(config, true, true)? } else { None };
    let kinds = layer_kinds(config)?;
    let delta = if kinds.contains(&Kind::Linear) { Some(delta(rules, config, eps)?) } else { None };
    let layer = |(index, kind): (usize, &Kind)| {
        let mixer = match (kind, delta) {
            (Kind::Linear, Some(delta)) => MixerPlan::Delta(delta),
            _ => MixerPlan::Attention(Mask::CAUSAL),
        };
        let ffn = match &sparse {
            Some(sparse) => sparse.ffn(index, || mlp(config))?,
            None => FfnPlan::Dense(mlp(config)?),
        };
        Ok(LayerPlan { mixer, ffn })
    };
    kinds.iter().enumerate().map(layer).collect()
}

fn mlp(config: &Keys<'_>) -> Result<MlpShape, ModelError> {
    Ok(MlpShape {
        hidden: config.required_size("hidden_size")?,
        ffn: config.required_size("intermediate_size")?,
        activation: Activation::Silu,
        bias: BiasRule::Never,
    })
}

fn delta(rules: &HybridRules, config: &Keys<'_>, eps: f32) -> Result<DeltaShape, ModelError> {
    let geometry = DeltaGeometry {
        key_heads: config.required_size("linear_num_key_heads")?,
        value_heads: config.required_size("linear_num_value_heads")?,
        key_dim: config.required_size("linear_key_head_dim")?,
        value_dim: config.required_size("linear_value_head_dim")?,
    };
    if !geometry.value_heads.is_multiple_of(geometry.key_heads) {
        return Err(config.bad("linear_num_value_heads", "a multiple of linear_num_key_heads"));
    }
    let kernel = config.required_size("linear_conv_kernel_dim")?;
    if !(2..=MAX_KERNEL).contains(&kernel) {
        return Err(config.bad("linear_conv_kernel_dim", &format!("2 to {MAX_KERNEL}")));
    }
    Ok(DeltaShape {
        hidden: config.required_size("hidden_size")?,
        geometry,
        kernel,
        eps,
        projections: if rules.fused { DeltaProjections::Fused } else { DeltaProjections::Separate },
        key_heads: KeyHeadMap::Grouped,
        rate_baked: false,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Full,
}

/// By name, else every `full_attention_interval`-th layer has attention.
fn layer_kinds(config: &Keys<'_>) -> Result<Vec<Kind>, ModelError> {
    let layers = config.layers()?;
    let kind = |name: &str| match name {
        "linear_attention" => Some(Kind::Linear),
        "full_attention" => Some(Kind::Full),
        _ => None,
    };
    if let Some(kinds) = config.layer_types(layers, kind, "linear_attention and full_attention are")? {
        return Ok(kinds);
    }
    let interval = config.size("full_attention_interval")?.unwrap_or(4);
    Ok((1..=layers).map(|n| if n % interval == 0 { Kind::Full } else { Kind::Linear }).collect())
}
