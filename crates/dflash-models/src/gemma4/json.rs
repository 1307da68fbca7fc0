use dflash_tensor::{Activation, KvGeometry};

use super::config::{Config, Habits, LayerPlan, Reach, cache_layer};
use super::{overrides, rope};
use crate::ModelError;
use crate::attention::ValueSource;
use crate::json::{Keys, MAX_SIZE};
use crate::loader::BiasRule;
use crate::moe::MoeShape;
use crate::refuse::{HARMLESS, Neutral, NeutralValue, neutral, note_unread, refuse};

const READ: &[&str] = &[
    "attention_bias",
    "attention_k_eq_v",
    "enable_moe_block",
    "final_logit_softcapping",
    "global_head_dim",
    "head_dim",
    "hidden_activation",
    "hidden_size",
    "hidden_size_per_layer_input",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "moe_intermediate_size",
    "num_attention_heads",
    "num_experts",
    "num_global_key_value_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_kv_shared_layers",
    "per_layer_config",
    "rms_norm_eps",
    "rope_parameters",
    "sliding_window",
    // `layer_types` says it of every layer.
    "sliding_window_pattern",
    "tie_word_embeddings",
    "top_k_experts",
    "use_bidirectional_attention",
    "use_double_wide_mlp",
    // The table itself says how many rows it has.
    "vocab_size_per_layer_input",
];

/// Keys beside `text_config` that say nothing of the text model.
const AROUND: &[&str] = &[
    "audio_config",
    "audio_token_id",
    "boa_token_id",
    "boi_token_id",
    "eoa_token_id",
    "eoa_token_index",
    "eoi_token_id",
    "image_token_id",
    "text_config",
    "tie_word_embeddings",
    "video_token_id",
    "vision_config",
    "vision_soft_tokens_per_image",
];

/// Keys of relatives and forks that change the forward pass.
const CHANGES: &[Neutral] = &[
    neutral("activation_sparsity_pattern", NeutralValue::Nothing),
    neutral("altup_num_inputs", NeutralValue::Nothing),
    neutral("attn_logit_softcapping", NeutralValue::Zero),
    neutral("embedding_multiplier", NeutralValue::One),
    neutral("laurel_rank", NeutralValue::Nothing),
    neutral("layer_norm_eps", NeutralValue::Nothing),
    neutral("mlp_bias", NeutralValue::Nothing),
    neutral("partial_rotary_factor", NeutralValue::One),
    neutral("query_pre_attn_scalar", NeutralValue::Nothing),
    neutral("residual_multiplier", NeutralValue::One),
    neutral("rope_local_base_freq", NeutralValue::Nothing),
    neutral("rope_scaling", NeutralValue::Nothing),
    neutral("rope_theta", NeutralValue::Nothing),
    neutral("rope_traditional", NeutralValue::Nothing),
    neutral("use_second_mlp_block", NeutralValue::Nothing),
];

/// Reads `config.json`, flat or with a `text_config`; adds notes on keys that are not read.
///
/// No key that decides about the mathematics has a default: the toolkits disagree on them.
pub(super) fn read(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<Config, ModelError> {
    let section = config.object("text_config")?;
    if section.is_some() {
        notes.extend(note_unread(config, &[AROUND, HARMLESS], &[]));
    }
    let text = section.as_ref().unwrap_or(config);
    check(text)?;
    notes.extend(note_unread(text, &[READ, HARMLESS], &[CHANGES]));
    let reaches = reaches(text)?;
    let kv = overrides::geometries(text, &reaches)?;
    Ok(Config {
        hidden: text.required_size("hidden_size")?,
        eps: text.epsilon("rms_norm_eps")?,
        vocab: text.required_size("vocab_size")?,
        context: text.required_size("max_position_embeddings")?,
        heads: text.required_size("num_attention_heads")?,
        bias: if text.flag("attention_bias")? == Some(true) { BiasRule::Always } else { BiasRule::Never },
        softcap: softcap(text)?,
        tied: config.same_flag(text, "tie_word_embeddings")?,
        layer_inputs: required_count(text, "hidden_size_per_layer_input")?,
        experts: experts(text)?,
        sliding: habits(text, &reaches, &kv, Reach::Sliding)?,
        full: habits(text, &reaches, &kv, Reach::Full)?,
        layers: layers(text, &reaches)?,
    })
}

fn check(text: &Keys<'_>) -> Result<(), ModelError> {
    refuse(text, CHANGES)?;
    if text.text("model_type")?.is_some_and(|kind| !["gemma4", "gemma4_text"].contains(&kind)) {
        return Err(text.refused("model_type", "gemma4_text is"));
    }
    if text.text("hidden_activation")?.is_some_and(|kind| kind != "gelu_pytorch_tanh") {
        return Err(text.refused("hidden_activation", "gelu_pytorch_tanh is"));
    }
    match text.text("use_bidirectional_attention")? {
        // Rows of pictures are what it is about.
        None | Some("vision") => Ok(()),
        Some(_) => Err(text.refused("use_bidirectional_attention", "text attends to what came before")),
    }
}

/// A count that must be there; zero counts as none.
fn required_count(text: &Keys<'_>, key: &str) -> Result<Option<usize>, ModelError> {
    let count = text.integer(key, MAX_SIZE)?.ok_or_else(|| text.missing(key))?;
    Ok(Some(count).filter(|&count| count > 0))
}

fn softcap(text: &Keys<'_>) -> Result<Option<f32>, ModelError> {
    let key = "final_logit_softcapping";
    if !text.entries().any(|(name, _)| name == key) {
        return Err(text.missing(key));
    }
    match text.number(key)? {
        Some(cap) if cap <= 0.0 => Err(text.bad(key, "a positive number or null")),
        cap => Ok(cap),
    }
}

fn experts(text: &Keys<'_>) -> Result<Option<MoeShape>, ModelError> {
    if text.flag("enable_moe_block")? != Some(true) {
        return Ok(None);
    }
    let experts = text.required_size("num_experts")?;
    let top_k = text.required_size("top_k_experts")?;
    if top_k > experts {
        return Err(text.bad("top_k_experts", "at most num_experts"));
    }
    Ok(Some(MoeShape {
        hidden: text.required_size("hidden_size")?,
        experts,
        ffn: text.required_size("moe_intermediate_size")?,
        top_k,
        renormalise: true,
        activation: Activation::GeluTanh,
        shared: None,
    }))
}

fn reaches(text: &Keys<'_>) -> Result<Vec<Reach>, ModelError> {
    let (key, layers) = ("layer_types", text.layers()?);
    let reach = |name: &str| match name {
        "full_attention" => Some(Reach::Full),
        "sliding_attention" => Some(Reach::Sliding),
        _ => None,
    };
    let reaches = text.layer_types(layers, reach, "full_attention and sliding_attention are")?;
    let reaches = reaches.ok_or_else(|| text.missing(key))?;
    match reaches.last() {
        Some(Reach::Full) => Ok(reaches),
        _ => Err(text.refused(key, "the last layer has full attention")),
    }
}

fn habits(
    text: &Keys<'_>,
    reaches: &[Reach],
    kv: &[KvGeometry],
    reach: Reach,
) -> Result<Option<Habits>, ModelError> {
    let Some(kv) = overrides::common(text, reaches, kv, reach)? else { return Ok(None) };
    let window = match reach {
        Reach::Sliding => Some(text.required_size("sliding_window")?),
        Reach::Full => None,
    };
    Ok(Some(Habits { window, kv, rope: rope::read(text, reach, kv.dim)? }))
}

fn layers(text: &Keys<'_>, reaches: &[Reach]) -> Result<Vec<LayerPlan>, ModelError> {
    let key = "num_kv_shared_layers";
    let shared = text.integer(key, reaches.len())?.ok_or_else(|| text.missing(key))?;
    let ffn = text.required_size("intermediate_size")?;
    let wide = if text.flag("use_double_wide_mlp")? == Some(true) { 2 } else { 1 };
    let keys_are_values = text.flag("attention_k_eq_v")? == Some(true);
    let layer = |(index, &reach): (usize, &Reach)| {
        let cache = cache_layer(reaches, shared, index);
        let cache =
            cache.ok_or_else(|| text.refused(key, "no layer of the same type has keys of its own"))?;
        let (values, ffn) = match reach {
            _ if cache != index => (ValueSource::Shared, wide * ffn),
            Reach::Full if keys_are_values => (ValueSource::Keys, ffn),
            _ => (ValueSource::Projection, ffn),
        };
        Ok(LayerPlan { reach, values, cache, ffn })
    };
    reaches.iter().enumerate().map(layer).collect()
}
