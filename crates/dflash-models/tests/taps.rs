//! A tap is the output of the layer it names.

mod common;

use std::path::Path;

use common::{backends, load, run};
use dflash_testkit::{Dtype, TensorFile, TinyLlama};

const LAYERS: usize = 4;

/// A target whose layer `i` adds `10^i` to every channel: all matrices are zero, the MLP's last bias is not.
fn adding_target(dir: &Path) -> TinyLlama {
    let llama = TinyLlama { layers: LAYERS, vocab: 8, ..TinyLlama::default() };
    let mut file = TensorFile::default();
    let mut zeros = |name: &str, shape: &[usize], value: f32| {
        file.floats(name, shape, &vec![value; shape.iter().product()], Dtype::F32);
    };
    zeros("model.embed_tokens.weight", &[8, 32], 0.5);
    zeros("lm_head.weight", &[8, 32], 0.0);
    zeros("model.norm.weight", &[32], 3.0);
    for i in 0..LAYERS {
        let name = |tail: &str| format!("model.layers.{i}.{tail}");
        zeros(&name("input_layernorm.weight"), &[32], 1.0);
        zeros(&name("post_attention_layernorm.weight"), &[32], 1.0);
        for (matrix, rows, cols) in [
            ("self_attn.q_proj", 32, 32),
            ("self_attn.k_proj", 16, 32),
            ("self_attn.v_proj", 16, 32),
            ("self_attn.o_proj", 32, 32),
            ("mlp.gate_proj", 64, 32),
            ("mlp.up_proj", 64, 32),
            ("mlp.down_proj", 32, 64),
        ] {
            zeros(&name(&format!("{matrix}.weight")), &[rows, cols], 0.0);
        }
        zeros(&name("mlp.gate_proj.bias"), &[64], 0.0);
        zeros(&name("mlp.up_proj.bias"), &[64], 0.0);
        zeros(&name("mlp.down_proj.bias"), &[32], 10f32.powi(i as i32));
    }
    llama.write(dir);
    file.write(&dir.join("model.safetensors"));
    common::edit_config(dir, |config| config["mlp_bias"] = true.into());
    llama
}

#[test]
fn a_tap_holds_the_output_of_the_named_layer() {
    let temp = tempfile::tempdir().unwrap();
    adding_target(temp.path());
    // The embedding, then 1, 10, 100 and 1000 are added; the last tap is not normed.
    let after = [1.5, 11.5, 111.5, 1111.5];
    for backend in backends() {
        let target = load(temp.path(), &backend).unwrap().target;
        for taps in [vec![0, 1, 2, 3], vec![3, 0, 2], vec![1], vec![2, 2]] {
            for pieces in [vec![5], vec![1; 5], vec![2, 3]] {
                let found = run(target.as_ref(), &[1, 2, 3, 4, 5], &pieces, &taps).taps;
                let row = taps.iter().flat_map(|&layer| [after[layer]; 32]).collect::<Vec<_>>();
                assert!(found.iter().all(|found| *found == row), "{taps:?} {pieces:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "every tapped layer")]
fn a_tap_on_a_layer_that_is_not_there_is_a_hard_error() {
    let temp = tempfile::tempdir().unwrap();
    adding_target(temp.path());
    let target = load(temp.path(), &common::backend()).unwrap().target;
    run(target.as_ref(), &[1], &[1], &[LAYERS]);
}
