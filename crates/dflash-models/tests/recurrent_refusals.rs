//! What the loaders of families with recurrent layers refuse, and that it says why.

mod common;

use std::fs;
use std::path::Path;

use common::{assert_says, copy_dir, data, edit_config, refused};
use dflash_models::ModelError;
use serde_json::{Value, json};

/// The error for a checkpoint after one change of its config, of the text part where there is one.
fn refused_with(name: &str, edit: impl FnOnce(&mut Value)) -> ModelError {
    let temp = tempfile::tempdir().unwrap();
    let dir = copy_dir(&data(name), temp.path(), "config.json");
    edit_config(&dir, |config| match config.get_mut("text_config") {
        Some(text) => edit(text),
        None => edit(config),
    });
    refused(&dir)
}

const HYBRID: [&str; 3] = ["qwen3_next/mixed-r2", "qwen3_5/wrapper-r3", "qwen3_5_moe/flat-separate-r3"];

#[test]
fn keys_that_cannot_be_right_are_named() {
    for (key, value, says) in [
        ("rms_norm_eps", json!(-1e-6), "a positive number"),
        ("rms_norm_eps", json!(0), "a positive number"),
        ("num_hidden_layers", json!(1 << 20), "1 to 1024"),
        ("layer_types", json!(["full_attention"]), "names"),
        ("linear_conv_kernel_dim", json!(1), "2 to 8"),
        ("linear_num_value_heads", json!(1), "a multiple of linear_num_key_heads"),
        ("num_key_value_heads", json!(3), "a divisor of num_attention_heads"),
        ("attn_output_gate", json!(false), "output gate"),
    ] {
        for name in HYBRID {
            assert_says(&refused_with(name, |config| config[key] = value.clone()), &[key, says]);
        }
    }
}

/// Rows are put in order head by head: with so many of them the order alone would not fit into memory.
#[test]
fn heads_that_the_tensors_lack_take_no_memory() {
    let attention = ["num_attention_heads", "head_dim"];
    let linear = ["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"];
    for name in HYBRID {
        for keys in [&attention[..], &linear] {
            let error = refused_with(name, |config| {
                keys.iter().for_each(|&key| config[key] = json!(1 << 20));
            });
            assert!(matches!(error, ModelError::WrongShape { .. }), "{name} {keys:?}: {error}");
        }
    }
}

#[test]
fn the_part_of_a_head_that_turns_has_no_default() {
    for name in HYBRID {
        let error = refused_with(name, |config| {
            config["rope_parameters"].as_object_mut().unwrap().remove("partial_rotary_factor");
        });
        assert_says(&error, &["partial_rotary_factor"]);
        assert!(matches!(error, ModelError::MissingKey { .. }), "{error}");
    }
}

#[test]
fn the_text_model_is_of_the_family_around_it() {
    let error = refused_with("qwen3_5/wrapper-r3", |text| text["model_type"] = json!("qwen3_5_moe_text"));
    assert_says(&error, &["text_config.model_type", "qwen3_5_moe_text"]);
}

/// Changes the shape of a tensor in the header of a safetensors file; the bytes stay.
fn reshape(file: &Path, tensor: &str, shape: impl FnOnce(&Value) -> Value) {
    let bytes = fs::read(file).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    let found = &mut header[tensor]["shape"];
    *found = shape(found);
    let header = header.to_string().into_bytes();
    fs::write(file, [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[end..]].concat()).unwrap();
}

/// Whether norms are stored less one is told by the layout of the convolutions, which must all say the same.
#[test]
fn layers_of_raw_and_converted_files_do_not_mix() {
    let temp = tempfile::tempdir().unwrap();
    let dir = copy_dir(&data("qwen3_next/mixed-r2"), temp.path(), "config.json");
    let conv = "model.layers.1.linear_attn.conv1d.weight";
    reshape(&dir.join("model.safetensors"), conv, |shape| json!([shape[0], shape[2], 1]));
    let error = refused(&dir);
    assert!(matches!(error, ModelError::BadTensor { .. }), "{error}");
    assert_says(&error, &[conv, "another layout than model.layers.0.linear_attn.conv1d.weight"]);
}

#[test]
fn a_width_that_is_none_is_refused() {
    for factor in [1e30, 0.0, -1.0, 1e-30] {
        let error = refused_with("lfm2/bias", |config| {
            config["block_auto_adjust_ff_dim"] = json!(true);
            config["block_ffn_dim_multiplier"] = json!(factor);
        });
        assert_says(&error, &["block_ffn_dim_multiplier", "a width of 1 to"]);
    }
    assert_says(&refused_with("lfm2/bias", |config| config["norm_eps"] = json!(-1)), &["norm_eps"]);
}
