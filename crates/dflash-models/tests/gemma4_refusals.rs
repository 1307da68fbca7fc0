//! What the Gemma 4 loader refuses, and that it says why.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{assert_says, backend, data, edit_config, load, refused};
use dflash_models::{LoadedTarget, ModelError};
use dflash_testkit::{TensorFile, TinyGemma};
use serde_json::{Value, json};
use tempfile::TempDir;

fn written(edit: impl FnOnce(&mut Value)) -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = TinyGemma::default().write(&temp.path().join("model"));
    edit_config(&dir, edit);
    (temp, dir)
}

/// The error after one change of `text_config`.
fn refused_text(edit: impl FnOnce(&mut Value)) -> ModelError {
    let (_temp, dir) = written(|config| edit(&mut config["text_config"]));
    refused(&dir)
}

fn loads(edit: impl FnOnce(&mut Value)) -> LoadedTarget {
    let (_temp, dir) = written(edit);
    load(&dir, &backend()).unwrap_or_else(|error| panic!("{error}"))
}

fn without(key: &str) -> ModelError {
    refused_text(|text| drop(text.as_object_mut().unwrap().remove(key).expect("the key")))
}

#[test]
fn keys_that_change_the_mathematics_are_refused_by_name() {
    for (key, value) in [
        ("hidden_activation", json!("silu")),
        ("use_bidirectional_attention", json!("all")),
        ("model_type", json!("gemma3n_text")),
        ("attn_logit_softcapping", json!(50.0)),
        ("query_pre_attn_scalar", json!(256)),
        ("rope_theta", json!(10000.0)),
        ("rope_scaling", json!({"rope_type": "linear", "factor": 8.0})),
        ("rope_local_base_freq", json!(10000.0)),
        ("laurel_rank", json!(64)),
        ("partial_rotary_factor", json!(0.5)),
        ("num_kv_shared_layers", json!(3)),
        ("layer_types", json!(["full_attention", "full_attention", "full_attention", "chunked_attention"])),
        ("layer_types", json!(["full_attention", "full_attention", "full_attention", "sliding_attention"])),
    ] {
        let error = refused_text(|text| text[key] = value);
        let path = format!("text_config.{key}");
        assert!(matches!(&error, ModelError::Refused { key, .. } if *key == path), "{error}");
    }
}

#[test]
fn neutral_values_of_such_keys_load() {
    loads(|config| {
        let text = &mut config["text_config"];
        text["use_bidirectional_attention"] = json!("vision");
        text["attn_logit_softcapping"] = Value::Null;
        text["partial_rotary_factor"] = json!(1.0);
    });
}

/// The toolkits' defaults differ, so that a file without these keys means different models.
#[test]
fn keys_without_a_common_default_must_be_there() {
    for key in [
        "hidden_size",
        "head_dim",
        "global_head_dim",
        "num_key_value_heads",
        "layer_types",
        "sliding_window",
        "num_kv_shared_layers",
        "hidden_size_per_layer_input",
        "final_logit_softcapping",
        "rms_norm_eps",
        "num_experts",
        "top_k_experts",
        "moe_intermediate_size",
    ] {
        let (error, path) = (without(key), format!("text_config.{key}"));
        assert!(matches!(&error, ModelError::MissingKey { key, .. } if *key == path), "{error}");
    }
}

#[test]
fn senseless_values_are_refused() {
    for (key, value) in [
        ("top_k_experts", json!(5)),
        ("num_kv_shared_layers", json!(5)),
        ("final_logit_softcapping", json!(-30.0)),
        ("layer_types", json!(["full_attention"])),
        ("head_dim", json!(7)),
        ("num_attention_heads", json!(3)),
    ] {
        let error = refused_text(|text| text[key] = value);
        let path = format!("text_config.{key}");
        assert!(matches!(&error, ModelError::BadValue { key, .. } if *key == path), "{error}");
    }
}

#[test]
fn overrides_of_layers_are_read_or_refused() {
    let refused = |layers: Value| refused_text(|text| text["per_layer_config"] = layers);
    assert_says(&refused(json!({"9": {"head_dim": 16}})), &["per_layer_config.9", "numbers of layers"]);
    assert_says(&refused(json!({"full_attention": {"head_dim": 16}})), &["per_layer_config.full_attention"]);
    assert_says(&refused(json!({"1": {"intermediate_size": 16}})), &["per_layer_config.1.intermediate_size"]);
    let error = refused(json!({"1": {"head_dim": 32}, "3": {"head_dim": 32}}));
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    assert_says(&error, &["global_head_dim", "16", "per_layer_config", "32"]);
    let error = refused(json!({"1": {"head_dim": 16}, "3": {"head_dim": 16}}));
    assert_says(&error, &["num_global_key_value_heads` is 1", "num_key_value_heads of 2"]);
    let error = refused_text(|text| {
        text["num_global_key_value_heads"] = Value::Null;
        text.as_object_mut().unwrap().remove("global_head_dim");
        text["per_layer_config"] = json!({"1": {"head_dim": 16}});
    });
    assert_says(&error, &["per_layer_config", "one shape"]);
    let both = json!({"head_dim": 16, "num_key_value_heads": 1});
    loads(|config| config["text_config"]["per_layer_config"] = json!({"1": both, "3": both}));
}

#[test]
fn rotary_settings_are_read_or_refused() {
    let with = |full: Value| {
        refused_text(|text| {
            let sliding = json!({"rope_type": "default", "rope_theta": 1e4});
            text["rope_parameters"] = json!({"sliding_attention": sliding, "full_attention": full});
        })
    };
    assert_says(&with(Value::Null), &["rope_parameters.full_attention"]);
    assert_says(
        &with(json!({"rope_type": "yarn", "rope_theta": 1e6})),
        &["full_attention.rope_type", "yarn"],
    );
    assert_says(&with(json!({"rope_type": "proportional"})), &["full_attention.rope_theta"]);
    let full = json!({"rope_type": "proportional", "rope_theta": 1e6, "mscale": 2.0});
    assert_says(&with(full), &["full_attention.mscale", "unknown"]);
    let full = json!({"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 1.5});
    assert_says(&with(full), &["partial_rotary_factor", "0 to 1"]);
    let full = json!({"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25});
    assert_says(&with(full), &["partial_rotary_factor", "whole head"]);
}

#[test]
fn places_that_disagree_about_the_head_are_a_conflict() {
    let error = refused_text(|text| text["tie_word_embeddings"] = json!(false));
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    assert_says(&error, &["tie_word_embeddings", "text_config.tie_word_embeddings"]);
}

#[test]
fn unknown_keys_are_noted_and_configs_of_towers_are_not() {
    let loaded = loads(|config| {
        config["vision_config"] = json!({"hidden_size": 8});
        config["image_token_id"] = json!(5);
        config["text_config"]["shiny_new_thing"] = json!(1);
    });
    assert_eq!(loaded.notes, ["keys of config.json that are not read: text_config.shiny_new_thing"]);
}

#[test]
fn stop_ids_of_the_text_model_count() {
    let loaded = loads(|config| config["text_config"]["eos_token_id"] = json!([2, 50, 1]));
    assert_eq!(loaded.target.spec().stop_ids, [2, 50, 1]);
}

fn refused_tensors(edit: impl FnOnce(&mut TensorFile)) -> ModelError {
    let (_temp, dir) = written(|_| {});
    let mut file = TinyGemma::default().tensors();
    edit(&mut file);
    file.write(&dir.join("model.safetensors"));
    refused(&dir)
}

#[test]
fn tensors_that_nothing_reads_are_refused() {
    let dtype = TinyGemma::default().dtype;
    let own = "model.language_model.layers.0.self_attn.v_norm.weight";
    let error = refused_tensors(|file| file.floats(own, &[8], &[1.0; 8], dtype));
    assert!(matches!(&error, ModelError::UnusedTensors { names, .. } if *names == [own]), "{error}");
    // Full layers take their keys for values.
    let values = "model.language_model.layers.1.self_attn.v_proj.weight";
    let error = refused_tensors(|file| file.floats(values, &[16, 32], &[1.0; 512], dtype));
    assert!(matches!(&error, ModelError::UnusedTensors { names, .. } if *names == [values]), "{error}");
}

#[test]
fn a_table_of_layer_inputs_that_lacks_ids_is_refused() {
    let table = "model.language_model.embed_tokens_per_layer.weight";
    let dtype = TinyGemma::default().dtype;
    let error = refused_tensors(|file| file.floats(table, &[96, 32], &[0.5; 96 * 32], dtype));
    assert_says(&error, &[table, "96 rows", "97 ids"]);
}

/// The error of a GGUF file in which `edit` changed some bytes.
fn refused_gguf(edit: impl FnOnce(&mut Vec<u8>)) -> ModelError {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model.gguf");
    let mut bytes = fs::read(data("gguf/gemma4-ple-f32.gguf")).unwrap();
    edit(&mut bytes);
    fs::write(&path, bytes).unwrap();
    refused(&path)
}

/// Where `pattern` first ends in `bytes`.
fn after(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes.windows(pattern.len()).position(|window| window == pattern).expect("the bytes") + pattern.len()
}

/// Writes an integer behind a key of the metadata; its type stands between.
fn set(key: &str, value: u32) -> ModelError {
    refused_gguf(|bytes| {
        let at = after(bytes, key.as_bytes()) + 4;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    })
}

#[test]
fn gguf_metadata_is_checked() {
    assert_says(&set("gemma4.attention.shared_kv_layers", 2), &["shared_kv_layers", "keys of its own"]);
    assert_says(&set("gemma4.attention.shared_kv_layers", 9), &["shared_kv_layers", "keys of its own"]);
    assert_says(&set("gemma4.attention.value_length_swa", 8), &["value_length_swa", "one length"]);
    assert_says(&set("gemma4.rope.dimension_count", 8), &["rope.dimension_count", "one length"]);
    assert_says(&set("gemma4.attention.key_length_swa", 0), &["key_length_swa"]);
    assert_says(&set("gemma4.block_count", 2), &["sliding_window_pattern", "2 truth values"]);
    let error = refused_gguf(|bytes| {
        let at = after(bytes, b"gemma4.attention.sliding_window_pattern");
        bytes[at - 1] = b'x';
    });
    assert_says(&error, &["lacks the key `gemma4.attention.sliding_window_pattern`"]);
}

#[test]
fn gguf_divisors_of_frequencies_keep_pairs_or_stop_them() {
    let error = refused_gguf(|bytes| {
        let stops = 1e30f32.to_le_bytes();
        let at = after(bytes, &[stops, stops, stops].concat());
        bytes[at..at + 4].copy_from_slice(&2f32.to_le_bytes());
    });
    assert_says(&error, &["rope_freqs.weight", "1e30"]);
}
