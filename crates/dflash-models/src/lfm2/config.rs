use dflash_tensor::{Activation, KvGeometry, Mask};

use crate::ModelError;
use crate::attention::AttentionShape;
use crate::conv::{ConvShape, MAX_KERNEL};
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::json::{Keys, MAX_SIZE};
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;
use crate::refuse::{HARMLESS, Neutral, NeutralValue, neutral, note_unread, refuse};
use crate::rope::{RopeConfig, RopeRules};

const READ: &[&str] = &[
    "hidden_size",
    "intermediate_size",
    "block_ff_dim",
    "block_auto_adjust_ff_dim",
    "block_ffn_dim_multiplier",
    "block_multiple_of",
    "block_dim",
    "block_mlp_init_scale",
    "block_norm_eps",
    "block_out_init_scale",
    "block_use_swiglu",
    "block_use_xavier_init",
    "conv_bias",
    "conv_dim",
    "conv_dim_out",
    "conv_L_cache",
    "conv_use_xavier_init",
    "full_attn_idxs",
    "head_dim",
    "layer_types",
    "max_position_embeddings",
    "norm_eps",
    "num_attention_heads",
    "num_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "theta",
    "tie_embedding",
    "tie_word_embeddings",
    "use_pos_enc",
    "vocab_size",
];

/// Keys that change the forward pass.
const CHANGES: &[Neutral] =
    &[neutral("num_experts", NeutralValue::Zero), neutral("sliding_window", NeutralValue::Nothing)];

/// Reads `config.json`; adds a note on keys that are not read.
pub(super) fn from_json(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<DecoderConfig, ModelError> {
    refuse(config, CHANGES)?;
    require(config, "block_use_swiglu")?;
    require(config, "use_pos_enc")?;
    notes.extend(note_unread(config, &[READ, HARMLESS], &[CHANGES]));
    let context = config.required_size("max_position_embeddings")?;
    let attention = attention(config)?;
    let rules = RopeRules {
        kinds: &["linear", "yarn"],
        base: Some(1_000_000.0),
        context,
        layer_types: &[],
        partial: false,
        multimodal: false,
    };
    Ok(DecoderConfig {
        family: "lfm2",
        hidden: attention.hidden,
        eps: attention.eps,
        vocab: config.required_size("vocab_size")?,
        context,
        rope: RopeConfig::read(config, &rules)?,
        rotary: attention.kv.dim,
        norms: NormRule::Plain,
        tied: config.flag("tie_word_embeddings")?.or(config.flag("tie_embedding")?),
        layers: layers(config, attention.hidden)?,
        attention,
    })
}

fn require(config: &Keys<'_>, key: &str) -> Result<(), ModelError> {
    match config.flag(key)? {
        Some(false) => Err(config.refused(key, "true is")),
        _ => Ok(()),
    }
}

fn attention(config: &Keys<'_>) -> Result<AttentionShape, ModelError> {
    let hidden = config.required_size("hidden_size")?;
    let heads = config.required_size("num_attention_heads")?;
    let kv_heads = config.size("num_key_value_heads")?.unwrap_or(heads);
    if !hidden.is_multiple_of(2 * heads) {
        return Err(config.bad("num_attention_heads", "a divisor of hidden_size that leaves an even number"));
    }
    if !heads.is_multiple_of(kv_heads) {
        return Err(config.bad("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    let dim = hidden / heads;
    if config.size("head_dim")?.is_some_and(|stated| stated != dim) {
        return Err(config.refused("head_dim", "it is hidden_size by num_attention_heads"));
    }
    Ok(AttentionShape {
        hidden,
        heads,
        kv: KvGeometry { heads: kv_heads, dim },
        scale: (dim as f32).powf(-0.5),
        eps: config.epsilon("norm_eps")?,
        qkv_bias: BiasRule::Never,
        output_bias: BiasRule::Never,
        head_norms: Some(NormRule::Plain),
        output_gate: false,
        interleaved: false,
    })
}

fn layers(config: &Keys<'_>, hidden: usize) -> Result<Vec<LayerPlan>, ModelError> {
    let mlp = MlpShape { hidden, ffn: ffn(config)?, activation: Activation::Silu, bias: BiasRule::Never };
    let conv = conv(config, hidden)?;
    let layer = |attends| LayerPlan {
        mixer: if attends { MixerPlan::Attention(Mask::CAUSAL) } else { MixerPlan::Conv(conv) },
        ffn: FfnPlan::Dense(mlp),
    };
    Ok(attends(config)?.into_iter().map(layer).collect())
}

fn conv(config: &Keys<'_>, hidden: usize) -> Result<ConvShape, ModelError> {
    let kernel = config.required_size("conv_L_cache")?;
    if !(2..=MAX_KERNEL).contains(&kernel) {
        return Err(config.bad("conv_L_cache", &format!("2 to {MAX_KERNEL}")));
    }
    let bias = if config.flag("conv_bias")? == Some(true) { BiasRule::Always } else { BiasRule::Never };
    Ok(ConvShape { hidden, kernel, bias })
}

/// Width of the MLP: two thirds of the stated one, times a factor, rounded up to whole multiples, unless the
/// config switches that off.
fn ffn(config: &Keys<'_>) -> Result<usize, ModelError> {
    let stated = match config.size("block_ff_dim")? {
        Some(stated) => stated,
        None => config.required_size("intermediate_size")?,
    };
    if config.flag("block_auto_adjust_ff_dim")? == Some(false) {
        return Ok(stated);
    }
    let two_thirds = 2 * stated / 3;
    let factor = config.number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    let scaled = f64::from(factor) * two_thirds as f64;
    if !(1.0..=MAX_SIZE as f64).contains(&scaled) {
        let expected = format!("a number that makes {two_thirds} a width of 1 to {MAX_SIZE}");
        return Err(config.bad("block_ffn_dim_multiplier", &expected));
    }
    Ok((scaled as usize).next_multiple_of(config.size("block_multiple_of")?.unwrap_or(256)))
}

/// Per layer whether it is one of attention.
fn attends(config: &Keys<'_>) -> Result<Vec<bool>, ModelError> {
    let layers = config.layers()?;
    if let Some(indices) = config.ids("full_attn_idxs")? {
        return Ok((0..layers).map(|layer| indices.contains(&(layer as u32))).collect());
    }
    let attends = |name: &str| match name {
        "full_attention" => Some(true),
        "conv" => Some(false),
        _ => None,
    };
    let attends = config.layer_types(layers, attends, "conv and full_attention are")?;
    attends.ok_or_else(|| config.bad("layer_types", &format!("a list of {layers} names")))
}
