//! What a target loader refuses, and that it says why.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{assert_says, backend, data, edit_config, load, loads_with, refused, refused_with, run, tiny};
use dflash_models::ModelError;
use dflash_testkit::{Dtype, TinyDraft, TinyLlama};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn keys_that_change_the_mathematics_are_refused_by_name() {
    for (key, value) in [
        ("hidden_act", json!("gelu")),
        ("sliding_window", json!(4096)),
        ("num_local_experts", json!(8)),
        ("attention_multiplier", json!(0.0625)),
        ("residual_multiplier", json!(0.22)),
        ("final_logit_softcapping", json!(30.0)),
        ("partial_rotary_factor", json!(0.5)),
        ("no_rope_layers", json!([1, 1, 0])),
        ("qk_norm", json!(true)),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
    ] {
        let error = refused_with(|config| config[key] = value);
        assert!(matches!(&error, ModelError::Refused { key: found, .. } if found == key), "{error}");
    }
}

#[test]
fn neutral_values_of_such_keys_load() {
    loads_with(|config| {
        config["sliding_window"] = Value::Null;
        config["num_local_experts"] = json!(0);
        config["residual_multiplier"] = json!(1.0);
        config["partial_rotary_factor"] = json!(1.0);
        config["layer_types"] = json!(["full_attention", "full_attention"]);
        config["pretraining_tp"] = json!(2);
    });
}

#[test]
fn an_unknown_key_is_noted() {
    let loaded = loads_with(|config| config["shiny_new_thing"] = json!(1));
    assert_eq!(loaded.notes, ["keys of config.json that are not read: shiny_new_thing"]);
}

#[test]
fn rotary_settings_are_read_or_refused() {
    let scaling = |value: Value| refused_with(|config| config["rope_scaling"] = value);
    assert_says(
        &scaling(json!({"rope_type": "dynamic", "factor": 2.0})),
        &["rope_scaling.rope_type", "dynamic"],
    );
    assert_says(&scaling(json!({"type": "longrope"})), &["rope_scaling.type", "longrope"]);
    assert_says(&scaling(json!({"type": "yarn", "factor": 2.0})), &["rope_scaling.type", "yarn"]);
    assert_says(&scaling(json!({"rope_type": "linear"})), &["rope_scaling.factor"]);
    assert_says(&scaling(json!({"rope_type": "default", "mrope_section": [1]})), &["mrope_section"]);
    let nested = json!({"sliding_attention": {"rope_theta": 1.0}, "full_attention": {"rope_theta": 10000.0}});
    loads_with(|config| config["rope_parameters"] = nested);
    let nested = json!({"other_attention": {"rope_theta": 1.0}});
    assert_says(
        &refused_with(|config| config["rope_parameters"] = nested),
        &["rope_parameters.full_attention"],
    );
    let error = refused_with(|config| config["rope_parameters"] = json!({"rope_theta": 5.0}));
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    assert_says(&error, &["rope_theta", "rope_parameters.rope_theta", "5.0", "10000.0"]);
    loads_with(|config| config["rope_parameters"] = json!({"rope_theta": 10000, "rope_type": "default"}));
}

#[test]
fn other_model_types_are_refused_with_those_that_are_read() {
    let error = refused_with(|config| config["model_type"] = json!("mistral"));
    assert_says(&error, &["mistral", "supported: llama"]);
    let error = refused_with(|config| drop(config.as_object_mut().unwrap().remove("model_type")));
    assert!(matches!(&error, ModelError::MissingKey { key, .. } if key == "model_type"), "{error}");
}

#[test]
fn senseless_sizes_are_refused() {
    for (key, value) in [
        ("hidden_size", json!(0)),
        ("num_hidden_layers", json!(-1)),
        ("max_position_embeddings", json!(1u64 << 60)),
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(7)),
        ("vocab_size", json!("many")),
        ("rms_norm_eps", json!("small")),
        ("eos_token_id", json!("two")),
    ] {
        let error = refused_with(|config| config[key] = value);
        assert!(matches!(&error, ModelError::BadValue { key: found, .. } if found == key), "{error}");
    }
}

#[test]
fn stop_ids_are_the_union_of_both_configs() {
    let (_temp, dir) = tiny(&TinyLlama { eos: vec![2, 5], ..TinyLlama::default() });
    fs::write(dir.join("generation_config.json"), r#"{"eos_token_id": 7}"#).unwrap();
    assert_eq!(load(&dir, &backend()).unwrap().target.spec().stop_ids, [7, 2, 5]);
}

#[test]
fn a_draft_is_refused_before_its_weights_are_looked_for() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TinyDraft::default().write(temp.path(), &TinyLlama::default());
    fs::remove_file(dir.join("model.safetensors")).unwrap();
    for edit in [
        (|_| {}) as fn(&mut Value),
        |config| config["architectures"] = json!(["DFlash2DraftModel"]),
        |config| drop(config.as_object_mut().unwrap().remove("architectures")),
        |config| *config = json!({"speculators_model_type": "eagle3", "model_type": "llama"}),
    ] {
        edit_config(&dir, edit);
        let error = refused(&dir);
        assert!(matches!(error, ModelError::DraftAsTarget { .. }), "{error}");
    }
}

/// Rewrites the tensors of a tiny target.
fn with_tensors(llama: &TinyLlama, edit: impl FnOnce(&mut dflash_testkit::TensorFile)) -> (TempDir, PathBuf) {
    let (temp, dir) = tiny(llama);
    let mut tensors = llama.tensors();
    edit(&mut tensors);
    tensors.write(&dir.join("model.safetensors"));
    (temp, dir)
}

#[test]
fn tie_flag_and_head_must_agree() {
    let (tied, untied) = (TinyLlama { tied: true, ..TinyLlama::default() }, TinyLlama::default());
    let (_temp, dir) = tiny(&tied);
    let target = load(&dir, &backend()).unwrap().target;
    assert!(std::sync::Arc::ptr_eq(target.embedding(), target.head()));
    edit_config(&dir, |config| config["tie_word_embeddings"] = json!(false));
    assert_says(&refused(&dir), &["tie_word_embeddings is false", "lm_head.weight is missing"]);
    edit_config(&dir, |config| drop(config.as_object_mut().unwrap().remove("tie_word_embeddings")));
    assert!(load(&dir, &backend()).is_ok(), "without the flag the missing head ties");
    let (_temp, dir) = tiny(&untied);
    edit_config(&dir, |config| config["tie_word_embeddings"] = json!(true));
    assert_says(&refused(&dir), &["tie_word_embeddings is true", "lm_head.weight"]);
    edit_config(&dir, |config| drop(config.as_object_mut().unwrap().remove("tie_word_embeddings")));
    let target = load(&dir, &backend()).unwrap().target;
    assert!(!std::sync::Arc::ptr_eq(target.embedding(), target.head()));
}

#[test]
fn every_tensor_is_used_or_named() {
    let llama = TinyLlama::default();
    let (_temp, dir) =
        with_tensors(&llama, |file| file.floats("model.layers.0.extra.weight", &[2], &[1.0; 2], Dtype::F32));
    let error = refused(&dir);
    assert!(
        matches!(&error, ModelError::UnusedTensors { names, .. } if names == &["model.layers.0.extra.weight"])
    );
    let inv_freq = "model.layers.0.self_attn.rotary_emb.inv_freq";
    let (_temp, dir) = with_tensors(&llama, |file| file.floats(inv_freq, &[2], &[1.0; 2], Dtype::F32));
    assert_eq!(load(&dir, &backend()).unwrap().notes.len(), 1);
    let error = refused_with(|config| config["num_hidden_layers"] = json!(1));
    assert!(matches!(&error, ModelError::UnusedTensors { names, .. } if names.len() == 9), "{error}");
    let error = refused_with(|config| config["num_hidden_layers"] = json!(3));
    assert_says(&error, &["model.layers.2.self_attn.q_proj.weight", "missing"]);
    let error = refused_with(|config| config["intermediate_size"] = json!(66));
    assert_says(&error, &["model.layers.0.mlp.gate_proj.weight", "[64, 32]", "[66, 32]"]);
    let error = refused_with(|config| config["attention_bias"] = json!(true));
    assert_says(&error, &["model.layers.0.self_attn.q_proj.bias", "missing"]);
}

#[test]
fn biases_are_added() {
    let llama = TinyLlama { layers: 1, ..TinyLlama::default() };
    let prefix = "model.layers.0";
    let widths = [("self_attn.q_proj", 32), ("self_attn.k_proj", 16), ("self_attn.v_proj", 16)];
    let (_temp, dir) = with_tensors(&llama, |file| {
        for (name, len) in widths {
            file.floats(&format!("{prefix}.{name}.bias"), &[len], &vec![0.0; len], Dtype::F32);
        }
        file.floats(&format!("{prefix}.self_attn.o_proj.bias"), &[32], &[3.0; 32], Dtype::F32);
    });
    assert!(
        matches!(refused(&dir), ModelError::UnusedTensors { .. }),
        "biases that the config does not name"
    );
    edit_config(&dir, |config| config["attention_bias"] = json!(true));
    let (_plain, plain) = tiny(&llama);
    let [plain, biased] = [&plain, &dir].map(|dir| load(dir, &backend()).unwrap().target);
    let [plain, biased] = [plain, biased].map(|target| run(target.as_ref(), &[4], &[1], &[0]).logits);
    assert_ne!(plain, biased);
}

#[test]
fn padding_rows_never_win() {
    let llama = TinyLlama { vocab: 20, padding: 77, ..TinyLlama::default() };
    let (_temp, dir) = tiny(&llama);
    let mut target = load(&dir, &backend()).unwrap().target;
    assert_eq!((target.spec().vocab, target.head().rows()), (20, 97));
    let ids = (0..20).collect::<Vec<_>>();
    let free = run(target.as_ref(), &ids, &[20], &[0]);
    assert!(free.choices.iter().all(|choice| choice.id < 20));
    let padded_wins = |row: &Vec<f32>| row[20..].iter().any(|x| row[..20].iter().all(|y| y < x));
    assert!(free.logits.iter().any(padded_wins), "the fixture tempts");
    target.limit_vocab(7);
    let bound = run(target.as_ref(), &ids, &[20], &[0]);
    assert!(bound.choices.iter().all(|choice| choice.id < 7));
}

#[test]
fn paths_that_are_no_checkpoint_say_what_they_lack() {
    let temp = tempfile::tempdir().unwrap();
    assert_says(&refused(&temp.path().join("absent")), &["no such file"]);
    assert_says(&refused(temp.path()), &["no config.json"]);
    fs::write(temp.path().join("x.gguf"), b"GGUF").unwrap();
    assert_says(&refused(temp.path()), &["GGUF files"]);
    fs::write(temp.path().join("config.json"), b"{").unwrap();
    assert!(matches!(refused(temp.path()), ModelError::Json { .. }));
    fs::write(temp.path().join("config.json"), TinyLlama::default().config().to_string()).unwrap();
    assert_says(&refused(temp.path()), &["model*.safetensors"]);
    let (_temp, dir) = tiny(&TinyLlama::default());
    assert_says(&refused(&dir.join("model.safetensors")), &["give the directory"]);
}

/// Opening a pipe would wait for a writer. A socket stands in for it: no regular file either, but opening
/// one fails at once.
#[cfg(unix)]
#[test]
fn only_regular_files_are_opened() {
    let (_temp, dir) = tiny(&TinyLlama::default());
    let assert_refused = |file: &str, model: &Path| {
        let path = dir.join(file);
        let _ = fs::remove_file(&path);
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = refused(model);
        assert!(matches!(&error, ModelError::NotAFile { path: found } if *found == path), "{error}");
        fs::remove_file(&path).unwrap();
    };
    assert_refused("x.gguf", &dir.join("x.gguf"));
    assert_refused("generation_config.json", &dir);
    assert_refused("model.safetensors.index.json", &dir);
    assert_refused("model.safetensors", &dir);
    assert_refused("config.json", &dir);
}

#[test]
fn progress_ends_at_the_whole() {
    let mut seen = Vec::new();
    let mut progress = |done, total| seen.push((done, total));
    dflash_models::load_target(&data("gguf/mixed-untied.gguf"), backend(), &mut progress).unwrap();
    let total = seen[0].1;
    assert!(total > 10_000 && seen.iter().all(|(done, all)| done <= all && *all == total));
    assert!(seen.is_sorted() && seen.len() > 10 && seen[seen.len() - 1].0 == total);
}

/// A tokenizer smaller than a padded table: a draft made for the vocabulary in between still fits.
#[test]
fn a_draft_fits_a_target_whose_ids_were_limited() {
    let temp = tempfile::tempdir().unwrap();
    let llama = TinyLlama { padding: 31, ..TinyLlama::default() };
    let mut target = load(&llama.write(&temp.path().join("target")), &backend()).unwrap().target;
    target.limit_vocab(90);
    let draft = TinyDraft { mask_id: 120, ..TinyDraft::default() }.write(&temp.path().join("draft"), &llama);
    let draft = dflash_models::Draft::load(&draft, target.as_ref(), Default::default()).unwrap();
    assert_eq!((draft.spec().mask_id, draft.spec().vocab), (120, 90));
}
