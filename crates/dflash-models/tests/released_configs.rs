//! Keys that configs of released models carry beyond those of tiny ones: none is refused, and none that says
//! nothing of the mathematics makes a note.

mod common;

use common::{assert_says, backend, copy_dir, data, edit_config, load, refused};
use dflash_models::LoadedTarget;
use serde_json::{Value, json};

/// A tiny model, the keys that a release has beside or instead of its own, and those that it has not. Keys are
/// merged into objects of the same name.
fn releases() -> Vec<(&'static str, Value, &'static [&'static str])> {
    let llama3 = json!({
        "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3",
        },
        "rope_theta": 500_000.0, "eos_token_id": [1, 2, 3], "torch_dtype": "bfloat16",
    });
    let qwen2_5 = json!({
        "rope_theta": 1_000_000.0, "sliding_window": 131_072, "use_sliding_window": false,
        "max_window_layers": 28, "use_mrope": false, "torch_dtype": "bfloat16",
    });
    let qwen3 = json!({
        "rope_scaling": null, "rope_theta": 1_000_000, "sliding_window": null, "use_sliding_window": false,
        "max_window_layers": 36, "torch_dtype": "bfloat16",
    });
    let qwen3_5 = json!({
        "language_model_only": false,
        "text_config": {
            "attn_output_gate": true, "dtype": "bfloat16", "full_attention_interval": 4,
            "mamba_ssm_dtype": "float32", "mlp_only_layers": [], "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": false,
        },
        "vision_config": {
            "deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152, "model_type": "qwen3_5",
            "patch_size": 16,
        },
    });
    let qwen3_6 = json!({"text_config": {
        "output_gate_type": "swish", "partial_rotary_factor": 0.25, "num_experts": 0, "num_experts_per_tok": 0,
    }});
    let gemma4 = json!({
        "eos_token_id": [1, 106], "eoa_token_id": 2, "vision_soft_tokens_per_image": 280,
        "audio_config": {"model_type": "gemma4_audio"}, "vision_config": {"model_type": "gemma4_vision"},
        "text_config": {
            "sliding_window_pattern": 2, "rope_traditional": false, "use_second_mlp_block": false,
        },
    });
    let lfm2 = json!({
        "block_dim": 64, "block_mlp_init_scale": 1.0, "block_norm_eps": 1e-5, "block_out_init_scale": 1.0,
        "block_use_swiglu": true, "block_use_xavier_init": true, "conv_dim": 64, "conv_use_xavier_init": true,
        "num_heads": 4, "use_pos_enc": true, "model_name": "LiquidAI/LFM2.5-1.2B-Thinking",
    });
    vec![
        ("llama/untied", llama3, &["rope_parameters"]),
        ("qwen2/tied", qwen2_5, &["rope_parameters", "layer_types"]),
        ("qwen3/tied", qwen3, &["rope_parameters", "layer_types"]),
        ("qwen3_moe/mixed-bf16", json!({"max_window_layers": 48}), &[]),
        ("qwen3_5/wrapper-r2", qwen3_5.clone(), &[]),
        ("qwen3_5/wrapper-r2", qwen3_6, &[]),
        ("qwen3_5_moe/fused", qwen3_5, &[]),
        ("gemma4/ple", gemma4, &[]),
        ("lfm2/plain", lfm2, &[]),
    ]
}

#[test]
fn released_keys_load_without_a_word() {
    for (model, extra, absent) in releases() {
        let notes = with_keys(model, &extra, absent).notes;
        let noise = notes.iter().filter(|note| note.starts_with("keys of")).collect::<Vec<_>>();
        assert!(noise.is_empty(), "{model}: {noise:?}");
    }
}

#[test]
fn what_such_keys_may_not_say() {
    for (model, section, key, value) in [
        ("qwen2/tied", None, "use_mrope", json!(true)),
        ("qwen3_5/wrapper-r2", Some("text_config"), "output_gate_type", json!("sigmoid")),
        ("gemma4/ple", Some("text_config"), "rope_traditional", json!(true)),
        ("gemma4/ple", Some("text_config"), "use_second_mlp_block", json!(true)),
        ("lfm2/plain", None, "head_dim", json!(48)),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let dir = copy_dir(&data(model), temp.path(), "config.json");
        edit_config(&dir, |config| match section {
            Some(section) => config[section][key] = value,
            None => config[key] = value,
        });
        assert_says(&refused(&dir), &["config.json", key]);
    }
}

fn with_keys(model: &str, extra: &Value, absent: &[&str]) -> LoadedTarget {
    let temp = tempfile::tempdir().unwrap();
    let dir = copy_dir(&data(model), temp.path(), "config.json");
    edit_config(&dir, |config| {
        merge(config, extra);
        if let Some(config) = config.as_object_mut() {
            config.retain(|key, _| !absent.contains(&key.as_str()));
        }
    });
    load(&dir, &backend()).unwrap_or_else(|error| panic!("{model}: {error}"))
}

fn merge(into: &mut Value, extra: &Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            extra.iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, extra) => *into = extra.clone(),
    }
}
