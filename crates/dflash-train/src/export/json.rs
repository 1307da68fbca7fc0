use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{DraftShape, TrainError};

/// The config of the safetensors layouts.
pub(super) const CONFIG: &str = "config.json";
/// What every draft that is written here says of itself.
pub(super) const MADE_BY: &str = "dflash train export";

/// Writes `config.json`, signed.
pub(super) fn write(dir: &Path, mut config: Value) -> Result<(), TrainError> {
    // Readers ignore keys with a leading underscore.
    config["_made_by"] = MADE_BY.into();
    let path = dir.join(CONFIG);
    fs::write(&path, format!("{config:#}\n")).map_err(TrainError::io(&path))
}

/// The keys of a Qwen3 decoder, as both layouts have them.
pub(super) fn decoder(shape: &DraftShape) -> Value {
    json!({
        "model_type": "qwen3",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.ffn,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shortest(shape.rms_norm_eps),
        "vocab_size": shape.target_vocab,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "attention_bias": false,
        "attention_dropout": 0.0,
        "layer_types": vec!["full_attention"; shape.layers],
    })
}

/// The Markov head as DSpark describes it, of the kind that corrects a slot by the token in the slot before it.
pub(super) fn add_markov(config: &mut Value, shape: &DraftShape) {
    if shape.markov_rank > 0 {
        config["markov_rank"] = shape.markov_rank.into();
        config["markov_head_type"] = "vanilla".into();
        config["enable_confidence_head"] = false.into();
        config["sample_from_anchor"] = false.into();
    }
}

/// The f64 with the same shortest decimal form: 1e-5 and not 9.999999747378752e-6.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(value.into())
}
