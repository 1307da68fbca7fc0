//! Drafts in GGUF, as llama.cpp writes them, against their twins in safetensors.

mod common;

use std::path::{Path, PathBuf};

use common::cycles::{FLOAT_TOLERANCE, QUANTISED_TOLERANCE, check, draft, target};
use common::gguf::{ARRAY, BOOL, F32, GgufParts, I32, TEXT, U32, array, text};
use common::{assert_says, backend, backends, data, goldens};
use dflash_models::{Draft, DraftOptions, ModelError};
use tempfile::TempDir;

fn twin(name: &str) -> PathBuf {
    data(&format!("draft/gguf/{name}.gguf"))
}

/// Name, original, prefix of its goldens.
const TWINS: &[(&str, &str, &str)] = &[
    ("flat-f32", "flat-f32", ""),
    ("nested-f16", "nested-f16", ""),
    ("sliding", "sliding", ""),
    ("sliding-noncausal", "sliding", "noncausal."),
    ("yarn", "yarn", ""),
    ("speculators-own", "speculators-own", ""),
];

#[test]
fn float_twins_match_the_goldens_and_each_other_bit_for_bit() {
    for backend in backends() {
        let target = target(&backend);
        for (name, original, prefix) in TWINS {
            println!("{name} on {}", backend.name());
            let dir = data("draft").join(original);
            let golden = goldens(&dir.join("golden.safetensors"));
            let gguf = draft(&twin(name), target.as_ref(), DraftOptions::default());
            assert!(gguf.spec().notes.is_empty(), "{name}: {:?}", gguf.spec().notes);
            let logits = check(&gguf, target.as_ref(), &golden, prefix, FLOAT_TOLERANCE);
            if prefix.is_empty() {
                let hf = draft(&dir, target.as_ref(), DraftOptions::default());
                assert_eq!(gguf.spec().taps, hf.spec().taps, "{name}");
                assert_eq!(logits, check(&hf, target.as_ref(), &golden, prefix, FLOAT_TOLERANCE), "{name}");
            }
        }
    }
}

#[test]
fn quantised_files_match_their_dequantised_weights() {
    for backend in backends() {
        let target = target(&backend);
        let float = draft(&twin("flat-f32"), target.as_ref(), DraftOptions::default());
        for (name, least) in [("q8_0", 3), ("q4_0", 5)] {
            let draft = draft(&twin(name), target.as_ref(), DraftOptions::default());
            assert!(draft.spec().weight_bytes < float.spec().weight_bytes / least, "{name} stays quantised");
            let golden = goldens(&data(&format!("draft/gguf/{name}.golden.safetensors")));
            check(&draft, target.as_ref(), &golden, "", QUANTISED_TOLERANCE);
        }
    }
}

/// A copy of a twin with changes.
fn edited(name: &str, edit: impl FnOnce(&mut GgufParts)) -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("draft.gguf");
    let mut parts = GgufParts::read(&twin(name));
    edit(&mut parts);
    parts.write(&path);
    (temp, path)
}

fn loaded(path: &Path) -> Result<Draft, ModelError> {
    Draft::load(path, target(&backend()).as_ref(), DraftOptions::default())
}

fn refused(name: &str, edit: impl FnOnce(&mut GgufParts)) -> ModelError {
    let (_temp, path) = edited(name, edit);
    loaded(&path).err().expect("the draft is refused")
}

#[test]
fn other_places_of_the_same_facts_load_alike() {
    let (_temp, path) = edited("flat-f32", |file| {
        file.remove("tokenizer.ggml.mask_token_id");
        file.set("dflash.mask_token_id", U32, &105u32.to_le_bytes());
        file.remove("tokenizer.ggml.tokens");
        file.set("dflash.vocab_size", U32, &112u32.to_le_bytes());
        file.set("dflash.rope.dimension_count", U32, &16u32.to_le_bytes());
        let sections = [8i32, 0, 0, 0].map(i32::to_le_bytes);
        file.set("dflash.rope.dimension_sections", ARRAY, &array(I32, &sections.each_ref().map(|n| &n[..])));
        file.set("dflash.attention.causal", BOOL, &[0]);
        file.set("dflash.sample_from_anchor", BOOL, &[0]);
        file.set("dflash.target_hidden_size", U32, &64u32.to_le_bytes());
        file.set("dflash.rope.scaling.attn_factor", F32, &1f32.to_le_bytes());
        file.tensor("enc.output_norm.weight").name = "hidden_norm.weight".into();
    });
    let backend = backend();
    let target = target(&backend);
    let golden = goldens(&data("draft/flat-f32/golden.safetensors"));
    let draft = draft(&path, target.as_ref(), DraftOptions::default());
    check(&draft, target.as_ref(), &golden, "", FLOAT_TOLERANCE);
}

#[test]
fn missing_keys_are_named() {
    for key in [
        "tokenizer.ggml.mask_token_id",
        "dflash.block_size",
        "dflash.target_layers",
        "dflash.attention.key_length",
        "dflash.attention.layer_norm_rms_epsilon",
        "dflash.rope.freq_base",
        "dflash.block_count",
    ] {
        let error = refused("flat-f32", |file| file.remove(key));
        assert!(matches!(&error, ModelError::MissingKey { key: found, .. } if found == key), "{error}");
    }
    let error = refused("sliding", |file| file.remove("dflash.attention.sliding_window_pattern"));
    assert_says(&error, &["dflash.attention.sliding_window_pattern"]);
}

#[test]
fn keys_that_change_the_mathematics_are_refused_by_name() {
    let (four, half) = (4u32.to_le_bytes(), 0.5f32.to_le_bytes());
    for (key, kind, value) in [
        ("dflash.selector_top_k", U32, four.to_vec()),
        ("dflash.conv_kernel_size", U32, four.to_vec()),
        ("dflash.markov_rank", U32, four.to_vec()),
        ("dflash.sample_from_anchor", BOOL, vec![1]),
        ("dflash.expert_count", U32, four.to_vec()),
        ("dflash.logit_scale", F32, half.to_vec()),
        ("dflash.rope.scaling.attn_factor", F32, half.to_vec()),
        ("dflash.rope.scaling.type", TEXT, text("longrope")),
        ("dflash.rope.dimension_count", U32, four.to_vec()),
        ("dflash.rope.dimension_sections", ARRAY, array(I32, &[&four, &four])),
        ("dflash.shiny_new_thing", U32, four.to_vec()),
        ("general.architecture", TEXT, text("dflash-draft")),
        ("general.architecture", TEXT, text("eagle3")),
    ] {
        let error = refused("flat-f32", |file| file.set(key, kind, &value));
        assert!(matches!(&error, ModelError::Refused { key: found, .. } if found == key), "{error}");
    }
    let input = 0i32.to_le_bytes();
    let error = refused("flat-f32", |file| file.set("dflash.target_layers", ARRAY, &array(I32, &[&input])));
    assert_says(&error, &["dflash.target_layers", "embedding"]);
}

#[test]
fn senseless_values_are_refused() {
    for (key, kind, value) in [
        ("dflash.block_size", U32, 1u32.to_le_bytes().to_vec()),
        ("dflash.target_layers", ARRAY, array(I32, &[])),
        ("dflash.attention.sliding_window", U32, u32::MAX.to_le_bytes().to_vec()),
        ("dflash.attention.head_count_kv", U32, 3u32.to_le_bytes().to_vec()),
        ("dflash.rope.freq_base", F32, (-1f32).to_le_bytes().to_vec()),
        ("dflash.block_count", U32, 100_000u32.to_le_bytes().to_vec()),
    ] {
        let error = refused("flat-f32", |file| file.set(key, kind, &value));
        assert!(matches!(&error, ModelError::BadValue { key: found, .. } if found == key), "{error}");
    }
    let error = refused("sliding", |file| {
        file.set("dflash.attention.sliding_window_pattern", ARRAY, &array(BOOL, &[&[1]]));
    });
    assert_says(&error, &["sliding_window_pattern", "2 truth values"]);
    let error = refused("flat-f32", |file| {
        file.set("dflash.mask_token_id", U32, &7u32.to_le_bytes());
    });
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    assert_says(&error, &["tokenizer.ggml.mask_token_id", "105", "dflash.mask_token_id", "7"]);
}

#[test]
fn tensors_are_named_as_the_file_calls_them() {
    let error =
        refused("flat-f32", |file| file.tensors.retain(|tensor| tensor.name != "blk.1.attn_q.weight"));
    assert_says(&error, &["blk.1.attn_q.weight (layers.1.self_attn.q_proj.weight)", "missing"]);
    let error = refused("flat-f32", |file| file.tensors.retain(|tensor| tensor.name != "output_norm.weight"));
    assert_says(&error, &["norm.weight", "missing"]);
    let error = refused("flat-f32", |file| file.tensor("blk.0.ffn_down.weight").dims.reverse());
    // Narrow tensors are cut short by the change, wide ones have another shape.
    assert_says(&error, &["tensor blk.0.ffn_down.weight", "[32, 64]", "[64, 32]"]);
    let error = refused("flat-f32", |file| {
        let mut extra = file.tensor("blk.0.attn_norm.weight").clone();
        extra.name = "blk.0.shiny.weight".into();
        file.tensors.push(extra);
    });
    assert!(matches!(&error, ModelError::UnusedTensors { names, .. } if names == &["blk.0.shiny.weight"]));
    for (name, what) in [
        ("blk.0.attn_sinks.weight", "sinks"),
        ("selector_hidden.weight", "DFlash2"),
        ("markov_w1.weight", "DSpark"),
    ] {
        let error = refused("flat-f32", |file| {
            let mut extra = file.tensor("blk.0.attn_norm.weight").clone();
            extra.name = name.into();
            file.tensors.push(extra);
        });
        assert!(matches!(error, ModelError::RefusedTensor { .. }), "{error}");
        assert_says(&error, &[name, what]);
    }
}

#[test]
fn reduced_heads_hold_target_ids() {
    let error = refused("speculators-own", |file| {
        file.tensor("d2t").data[..8].copy_from_slice(&112i64.to_le_bytes());
    });
    assert_says(&error, &["d2t", "outside the target's vocabulary"]);
}

#[test]
fn what_is_no_draft_says_so() {
    let error = loaded(&data("gguf/f32.gguf")).err().unwrap();
    assert!(matches!(error, ModelError::NotADraft { .. }), "{error}");
    assert_says(&error, &["llama"]);
    assert_says(&loaded(&data("draft/flat-f32/model.safetensors")).err().unwrap(), &["give the directory"]);
    assert_says(&loaded(&data("draft/absent")).err().unwrap(), &["no such file"]);
    let error = common::refused(&twin("flat-f32"));
    assert!(matches!(error, ModelError::DraftAsTarget { .. }), "{error}");
}

#[test]
fn a_draft_for_another_target_is_refused() {
    let error = refused("flat-f32", |file| {
        let taps = [3i32, 9].map(i32::to_le_bytes);
        file.set("dflash.target_layers", ARRAY, &array(I32, &taps.each_ref().map(|n| &n[..])));
        file.set("dflash.vocab_size", U32, &113u32.to_le_bytes());
    });
    let ModelError::Mismatch { differences, .. } = &error else { panic!("{error}") };
    assert_eq!(differences.len(), 2, "{error}");
    assert_says(&error, &["layer 8", "layers 0 to 3", "113"]);
}
