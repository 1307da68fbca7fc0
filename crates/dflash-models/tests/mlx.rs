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
        for (bits, group, tied, dtype) in
            [(4, 32, true, Dtype::Bf16), (8, 32, false, Dtype::F16), (4, 64, true, Dtype::F32)]
        {
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
    assert_says(&error(json!({"group_size": 32, "bits": 6})), &["quantization.bits", "6"]);
    assert_says(&error(json!({"group_size": 16, "bits": 4})), &["quantization.group_size", "16"]);
    assert_says(&error(json!({"group_size": 32, "bits": 4, "mode": "mxfp4"})), &["mxfp4"]);
    assert_says(&error(json!({"quant_method": "gptq", "bits": 4})), &["quant_method", "gptq"]);
    let mut wrong = quantised.clone();
    wrong["model.layers.7.mlp.up_proj"] = json!(false);
    assert_says(&error(wrong), &["model.layers.7.mlp.up_proj", "matches no module"]);
    let mut wrong = quantised.clone();
    wrong["model.layers.0.mlp.up_proj"] = json!({"group_size": 32, "bits": 8});
    assert_says(&error(wrong), &["model.layers.0.mlp.up_proj", "no scales"]);
    let mut wrong = quantised.clone();
    wrong["model.layers.0.mlp.up_proj"] = json!({"group_size": 32, "bits": 6});
    assert_says(&error(wrong), &["quantization.model.layers.0.mlp.up_proj.bits", "6"]);
    let error = refused_with(|config| {
        config["quantization"] = quantised.clone();
        config["quantization_config"] = json!({"group_size": 32, "bits": 8});
    });
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    loads_with(|config| config["quantization"] = quantised);
}
