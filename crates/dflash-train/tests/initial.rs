//! A draft begins as layers of its target, whatever file these come from.

mod common;

use common::target;
use dflash_models::Target;
use dflash_testkit::{TinyLlama, TinyMlx};
use dflash_train::{DraftShape, Matrix, TargetTables, init_from_layers};

fn tiny(model: &TinyLlama) -> (tempfile::TempDir, Box<dyn Target>) {
    let dir = tempfile::tempdir().unwrap();
    let target = target(&model.write(dir.path()));
    (dir, target)
}

/// The values of a tensor of a checkpoint without quantisation.
fn stored(dir: &std::path::Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(dir.join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    let (words, _) = tensor.data().as_chunks();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn tensors_are_those_of_the_target_s_layers() {
    let (dir, target) = tiny(&TinyLlama::default());
    let shape = DraftShape { taps: vec![0, 1], ..DraftShape::like(target.as_ref(), 2, 8, 3) };
    assert_eq!((shape.heads, shape.kv_heads, shape.head_dim, shape.ffn), (4, 2, 8, 64));
    assert_eq!((shape.rms_norm_eps, shape.rope_theta), (1e-5, 10_000.0));
    let initial = init_from_layers(target.as_ref(), &shape, &[1, 0], 5).unwrap();
    assert!(initial.notes.is_empty(), "{:?}", initial.notes);
    for (name, sizes) in shape.tensors() {
        let Matrix { shape, values } = &initial.weights[&name];
        assert_eq!((shape, values.len()), (&sizes, sizes.iter().product()), "{name}");
    }
    assert_eq!(initial.weights.len(), shape.tensors().len());
    for (index, layer) in [1, 0].into_iter().enumerate() {
        for module in [
            "input_layernorm",
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "post_attention_layernorm",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ] {
            let own = &initial.weights[&format!("layers.{index}.{module}.weight")].values;
            assert_eq!(
                own,
                &stored(dir.path(), &format!("model.layers.{layer}.{module}.weight")),
                "{module}"
            );
        }
        assert_eq!(initial.weights[&format!("layers.{index}.self_attn.q_norm.weight")].values, [1.0; 8]);
    }
    assert_eq!(initial.weights["norm.weight"].values, stored(dir.path(), "model.norm.weight"));
    assert_eq!(initial.weights["hidden_norm.weight"].values, [1.0; 32]);
    let fused = &initial.weights["fc.weight"].values;
    assert!((0..32).all(|row| fused[row * 64 + 32 + row] == 0.1));
    assert_eq!(fused.iter().filter(|&&value| value != 0.0).count(), 32);
}

#[test]
fn quantised_layers_are_those_that_are_served() {
    let model = |plain| TinyLlama {
        hidden: 64,
        ffn: 128,
        heads: 4,
        head_dim: 16,
        mlx: Some(TinyMlx { bits: 4, group: 32, plain }),
        ..TinyLlama::default()
    };
    let ((_a, quantised), (_b, plain)) = (tiny(&model(false)), tiny(&model(true)));
    let shape = DraftShape::like(quantised.as_ref(), 1, 8, 3);
    let of = |target: &dyn Target| init_from_layers(target, &shape, &[1], 5).unwrap().weights;
    let (found, wanted) = (of(quantised.as_ref()), of(plain.as_ref()));
    for (name, Matrix { values, .. }) in &found {
        let same = values.iter().zip(&wanted[name].values).all(|(a, b)| (a - b).abs() <= 1e-6);
        assert!(same, "{name}");
    }
}

#[test]
fn what_does_not_fit_is_random_by_its_seed_and_told() {
    let (_dir, target) = tiny(&TinyLlama::default());
    let like = DraftShape { markov_rank: 4, ..DraftShape::like(target.as_ref(), 1, 8, 3) };
    let shape = DraftShape { heads: 2, ..like.clone() };
    let initial = init_from_layers(target.as_ref(), &shape, &[0], 5).unwrap();
    let [note] = &initial.notes[..] else { panic!("{:?}", initial.notes) };
    assert!(note.starts_with("attention of layer 0 of the target has another shape"), "{note}");
    let random = |seed, name: &str| {
        init_from_layers(target.as_ref(), &shape, &[0], seed).unwrap().weights[name].values.clone()
    };
    let (q, up) = ("layers.0.self_attn.q_proj.weight", "layers.0.mlp.up_proj.weight");
    assert_eq!(random(5, q), initial.weights[q].values);
    assert_ne!(random(6, q), initial.weights[q].values);
    assert_eq!(random(6, up), initial.weights[up].values, "the MLP fits");
    assert!(initial.weights["markov_head.markov_w2.weight"].values.iter().all(|&value| value == 0.0));
    let alone = init_from_layers(target.as_ref(), &like, &[], 5).unwrap();
    assert!(alone.notes.is_empty() && alone.weights[up].values != initial.weights[up].values);
    let refused =
        |layers: &[usize]| init_from_layers(target.as_ref(), &like, layers, 5).unwrap_err().to_string();
    assert!(refused(&[0, 1]).contains("2 layers of the target to begin with, but the draft has 1"));
    assert!(refused(&[2]).contains("no layer 2 to begin with: its layers are 0 to 1"));
}

#[test]
fn tables_are_rows_of_the_target_s_own() {
    let (dir, target) = tiny(&TinyLlama::default());
    let tables = TargetTables::read(target.as_ref(), &[96, 0, 5], &[7, 7]);
    let row = |values: &[f32], id: usize| values[id * 32..][..32].to_vec();
    let (embedding, head) =
        (stored(dir.path(), "model.embed_tokens.weight"), stored(dir.path(), "lm_head.weight"));
    let wanted = [96, 0, 5].map(|id| row(&embedding, id)).concat();
    assert_eq!((tables.embedding.shape, tables.embedding.values), (vec![3, 32], wanted));
    assert_eq!(tables.head.values, [row(&head, 7), row(&head, 7)].concat());
    assert_eq!(tables.softcap, None);
}
