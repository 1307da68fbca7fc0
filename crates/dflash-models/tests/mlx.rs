//! Targets quantised by MLX.

mod common;

use std::sync::Arc;

use common::{
    assert_close, assert_says, backends, edit_config, load, loads_with, refused, refused_with, run, tiny,
};
use dflash_models::ModelError;
use dflash_testkit::{Dtype, TinyLlama, TinyMlx};
use serde_json::{Value, json};

#[test]
fn a_quantised_target_computes_what_its_values_say() {
    for backend in backends() {
        for (bits, group, tied, dtype) in [
            (4, 32, true, Dtype::Bf16),
            (8, 32, false, Dtype::F16),
            (4, 64, true, Dtype::F32),
            (2, 32, false, Dtype::Bf16),
            (3, 64, true, Dtype::F16),
            (5, 32, true, Dtype::F32),
            (6, 64, false, Dtype::Bf16),
        ] {
            let mlx = |plain| Some(TinyMlx { bits, group, plain });
            let llama = TinyLlama { hidden: 64, heads: 8, tied, dtype, ..TinyLlama::default() };
            let (_a, packed) = tiny(&TinyLlama { mlx: mlx(false), ..llama.clone() });
            let (_b, plain) = tiny(&TinyLlama { mlx: mlx(true), ..llama });
            let [packed, plain] = [packed, plain].map(|dir| load(&dir, &backend).unwrap().target);
            assert_eq!(Arc::ptr_eq(packed.embedding(), packed.head()), tied);
            let ids = [3, 50, 7, 96];
            let [packed, plain] = [packed, plain].map(|target| run(target.as_ref(), &ids, &[4], &[0]).logits);
            for (row, (packed, plain)) in packed.iter().zip(&plain).enumerate() {
                let plain = plain.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                // Activations meet quantised matrices as eight bits.
                assert_close(packed, &plain, 0.1, &format!("{bits} bits, row {row}"));
            }
        }
    }
}

#[test]
fn scales_without_a_plan_are_refused() {
    let mlx = Some(TinyMlx { bits: 4, group: 32, plain: false });
    let (_temp, dir) = tiny(&TinyLlama { mlx, ..TinyLlama::default() });
    edit_config(&dir, |config| config["quantization"]["lm_head"] = json!(false));
    assert_says(&refused(&dir), &["lm_head", "says false"]);
    edit_config(&dir, |config| config["quantization"] = json!({"bits": 8, "group_size": 32}));
    assert!(matches!(refused(&dir), ModelError::WrongShape { .. }));
    edit_config(&dir, |config| config["quantization"] = Value::Null);
    assert_says(&refused(&dir), &["no `quantization` section"]);
}

#[test]
fn mlx_settings_and_tensors_must_agree() {
    let quantised = json!({"group_size": 32, "bits": 4});
    let error = |section: Value| refused_with(|config| config["quantization"] = section);
    assert_says(&error(json!({"group_size": 32, "bits": 7})), &["quantization.bits", "7"]);
    assert_says(&error(json!({"group_size": 16, "bits": 4})), &["quantization.group_size", "16"]);
    for mode in ["mxfp4", "mxfp8", "nvfp4"] {
        assert_says(&error(json!({"group_size": 32, "bits": 4, "mode": mode})), &[mode]);
    }
    for method in ["gptq", "awq", "fp8", "compressed-tensors"] {
        assert_says(&error(json!({"quant_method": method, "bits": 4})), &["quant_method", method]);
    }
    let mut wrong = quantised.clone();
    wrong["model.layers.7.mlp.up_proj"] = json!(false);
    assert_says(&error(wrong), &["model.layers.7.mlp.up_proj", "matches no module"]);
    let mut wrong = quantised.clone();
    wrong["model.layers.0.mlp.up_proj"] = json!({"group_size": 32, "bits": 8});
    assert_says(&error(wrong), &["model.layers.0.mlp.up_proj", "no scales"]);
    let mut wrong = quantised.clone();
    wrong["model.layers.0.mlp.up_proj"] = json!({"group_size": 32, "bits": 7});
    assert_says(&error(wrong), &["quantization.model.layers.0.mlp.up_proj.bits", "7"]);
    let error = refused_with(|config| {
        config["quantization"] = quantised.clone();
        config["quantization_config"] = json!({"group_size": 32, "bits": 8});
    });
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    loads_with(|config| config["quantization"] = quantised);
}

#[test]
fn other_ways_to_quantise_are_refused_by_name_with_a_hint() {
    for method in [
        "aqlm",
        "awq",
        "bitnet",
        "bitsandbytes",
        "compressed-tensors",
        "eetq",
        "fbgemm_fp8",
        "fp8",
        "gptq",
        "hqq",
        "modelopt",
        "mxfp4",
        "quark",
        "torchao",
    ] {
        let error = refused_with(|config| config["quantization_config"] = json!({"quant_method": method}));
        assert!(
            matches!(&error, ModelError::Refused { key, .. } if key == "quantization_config.quant_method"),
            "{error}"
        );
        assert_says(&error, &[method, "is not supported (", "not read; take"]);
    }
    for mode in ["mxfp4", "mxfp8", "nvfp4"] {
        let section = json!({"group_size": 32, "bits": 4, "mode": mode});
        let error = refused_with(|config| config["quantization"] = section.clone());
        assert_says(&error, &["quantization.mode", mode, "take an affine MLX or a GGUF release"]);
        let mut section = json!({"group_size": 32, "bits": 4});
        section["model.layers.0.mlp.up_proj"] = json!({"group_size": 32, "bits": 4, "mode": mode});
        let error = refused_with(|config| config["quantization"] = section);
        assert_says(&error, &["quantization.model.layers.0.mlp.up_proj.mode", mode, "take an affine MLX"]);
    }
    let error = refused_with(|config| config["quantization_config"] = json!({"quant_method": "brand-new"}));
    assert_says(&error, &["brand-new", "only affine MLX quantization and GGUF are read"]);
    let error = refused_with(|config| config["quantization_config"] = json!({"quant_algo": "NVFP4"}));
    assert_says(&error, &["quant_algo", "NVFP4", "4-bit floats are not read"]);
    let error = refused_with(|config| config["compression_config"] = json!({"format": "pack-quantized"}));
    assert_says(&error, &["compression_config", "compressed-tensors"]);
}

#[test]
fn settings_of_the_text_part_count() {
    let nested = |value: Value| json!({ "quantization_config": value });
    let error = refused_with(|config| config["text_config"] = nested(json!({"quant_method": "awq"})));
    assert_says(&error, &["text_config.quantization_config.quant_method", "AWQ"]);
    let error = refused_with(|config| {
        config["quantization"] = json!({"group_size": 32, "bits": 4});
        config["text_config"] = nested(json!({"group_size": 64, "bits": 4}));
    });
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    assert_says(&error, &["`quantization`", "`text_config.quantization_config`"]);
}

/// The head may repeat the tied table; one that differs contradicts the flag.
#[test]
fn a_tied_quantised_table_and_a_head_must_agree() {
    let mlx = Some(TinyMlx { bits: 4, group: 32, plain: false });
    let llama = TinyLlama { mlx, tied: true, ..TinyLlama::default() };
    let (_temp, dir) = tiny(&llama);
    let path = dir.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    let stored = |name: &str| {
        let range = [0, 1].map(|i| header[name]["data_offsets"][i].as_u64().unwrap() as usize);
        bytes[end + range[0]..end + range[1]].to_vec()
    };
    let with_head = |change: u8| {
        let mut file = llama.tensors();
        for (tail, kind) in [("weight", "U32"), ("scales", "F32"), ("biases", "F32")] {
            let name = format!("model.embed_tokens.{tail}");
            let shape = header[&name]["shape"].as_array().unwrap();
            let shape = shape.iter().map(|n| n.as_u64().unwrap() as usize).collect::<Vec<_>>();
            let mut data = stored(&name);
            data[0] ^= if tail == "weight" { change } else { 0 };
            file.raw(&format!("lm_head.{tail}"), kind, &shape, &data);
        }
        file.write(&path);
    };
    with_head(0);
    let loaded = load(&dir, &common::backend()).unwrap();
    assert!(Arc::ptr_eq(loaded.target.embedding(), loaded.target.head()));
    assert_eq!(loaded.notes, ["lm_head.weight repeats the tied embedding and is not read"]);
    with_head(1);
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Tie { .. }), "{error}");
    assert_says(&error, &["tie_word_embeddings is true", "differs from the embedding"]);
    std::fs::write(&path, &bytes).unwrap();
    edit_config(&dir, |config| config["tie_word_embeddings"] = json!(false));
    assert_says(&refused(&dir), &["tie_word_embeddings is false", "lm_head.weight is missing"]);
}
