//! What the draft loader refuses, and that it says why.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{backend, edit_config, load};
use dflash_models::{Draft, DraftOptions, DraftQuant, ModelError, Target};
use dflash_testkit::{Dtype, TensorFile, TinyDraft, TinyLayout, TinyLlama};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A tiny pair in a directory of its own.
struct Pair {
    _temp: TempDir,
    target: Box<dyn Target>,
    draft: PathBuf,
}

fn pair(layout: TinyLayout, edit: impl FnOnce(&mut Value), tensors: impl FnOnce(&mut TensorFile)) -> Pair {
    let temp = tempfile::tempdir().unwrap();
    let llama = TinyLlama::default();
    let tiny = TinyDraft { layout, ..TinyDraft::default() };
    let target = load(&llama.write(&temp.path().join("target")), &backend()).unwrap().target;
    let draft = tiny.write(&temp.path().join("draft"), &llama);
    edit_config(&draft, edit);
    let mut file = tiny.tensors(&llama);
    tensors(&mut file);
    file.write(&draft.join("model.safetensors"));
    Pair { _temp: temp, target, draft }
}

impl Pair {
    fn load(&self) -> Result<Draft, ModelError> {
        Draft::load(&self.draft, self.target.as_ref(), DraftOptions::default())
    }

    fn refused(&self) -> ModelError {
        self.load().err().expect("the draft is refused")
    }
}

fn refused(layout: TinyLayout, edit: impl FnOnce(&mut Value)) -> ModelError {
    pair(layout, edit, |_| {}).refused()
}

fn remove(config: &mut Value, key: &str) {
    config.as_object_mut().unwrap().remove(key).expect("the key");
}

fn assert_says(error: &ModelError, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} in {text:?}"));
}

const LAYOUTS: [TinyLayout; 4] =
    [TinyLayout::Flat, TinyLayout::Nested, TinyLayout::Speculators, TinyLayout::SpeculatorsOwn(40)];

#[test]
fn every_layout_loads_and_means_the_same() {
    for layout in LAYOUTS {
        let pair = pair(layout, |_| {}, |_| {});
        let draft = pair.load().unwrap_or_else(|error| panic!("{layout:?}: {error}"));
        let spec = draft.spec();
        assert_eq!((spec.block, spec.mask_id, spec.taps.as_slice(), spec.layers), (8, 3, &[1, 0][..], 2));
        assert_eq!(spec.vocab, if layout == TinyLayout::SpeculatorsOwn(40) { 40 } else { 97 });
        assert!(spec.notes.is_empty(), "{layout:?}: {:?}", spec.notes);
    }
}

#[test]
fn a_missing_mask_token_or_block_size_names_the_key() {
    let key = |error: ModelError| match error {
        ModelError::MissingKey { key, .. } => key,
        other => panic!("{other}"),
    };
    let inner = |key: &'static str| move |config: &mut Value| remove(&mut config["dflash_config"], key);
    assert_eq!(key(refused(TinyLayout::Flat, inner("mask_token_id"))), "dflash_config.mask_token_id");
    assert_eq!(key(refused(TinyLayout::Nested, inner("block_size"))), "block_size");
    assert_eq!(key(refused(TinyLayout::Speculators, |c| remove(c, "mask_token_id"))), "mask_token_id");
    assert_eq!(key(refused(TinyLayout::Speculators, |c| remove(c, "block_size"))), "block_size");
    assert_eq!(key(refused(TinyLayout::Flat, |c| remove(c, "rope_theta"))), "rope_theta");
}

#[test]
fn two_places_that_disagree_are_a_conflict() {
    for (place, value) in [("block_size", json!(4)), ("num_target_layers", json!(3))] {
        let error = refused(TinyLayout::Flat, |config| config["dflash_config"][place] = value);
        assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
        assert_says(&error, &[place, &format!("dflash_config.{place}")]);
    }
    let error = refused(TinyLayout::Flat, |config| config["rope_parameters"] = json!({"rope_theta": 7.0}));
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    let error = refused(TinyLayout::Flat, |config| {
        config["is_causal"] = json!(true);
        config["dflash_config"]["causal"] = json!(false);
    });
    assert!(matches!(error, ModelError::Conflict { .. }), "{error}");
    pair(TinyLayout::Flat, |config| config["dflash_config"]["block_size"] = json!(8), |_| {}).load().unwrap();
}

#[test]
fn every_difference_to_the_target_is_listed() {
    let error = refused(TinyLayout::Flat, |config| {
        config["hidden_size"] = json!(48);
        config["vocab_size"] = json!(100);
        config["num_target_layers"] = json!(5);
        config["dflash_config"] = json!({"mask_token_id": 97, "target_layer_ids": [0, 2]});
    });
    let ModelError::Mismatch { differences, .. } = &error else { panic!("{error}") };
    let fields = differences.iter().map(|difference| difference.field.as_str()).collect::<Vec<_>>();
    assert_eq!(
        fields,
        ["hidden_size", "vocab_size", "num_target_layers", "target_layer_ids", "mask_token_id"]
    );
    assert_says(&error, &["`hidden_size` is 48, the target has 32", "layer 2", "97 embedding rows"]);
}

#[test]
fn later_generations_and_variants_are_refused_by_name() {
    let architecture =
        |name: &'static str| refused(TinyLayout::Flat, move |config| config["architectures"] = json!([name]));
    assert_says(&architecture("DFlash2DraftModel"), &["DFlash2DraftModel"]);
    assert_says(&architecture("DSparkSpeculator"), &["DSparkSpeculator"]);
    assert!(matches!(architecture("LlamaForCausalLM"), ModelError::NotADraft { .. }));
    for (key, value) in [
        ("conv_kernel_size", json!(2)),
        ("projector_type", json!("domino")),
        ("logit_scale", json!(0.5)),
        ("use_swa", json!(true)),
        ("attention_sink_bias", json!(true)),
        ("final_logit_softcapping", json!(30.0)),
        ("sample_from_anchor", json!(true)),
        ("never_heard_of", json!(1)),
    ] {
        let error = refused(TinyLayout::Nested, |config| config["dflash_config"][key] = value);
        assert_says(&error, &[&format!("dflash_config.{key}"), "not supported"]);
    }
    assert_says(
        &refused(TinyLayout::Speculators, |c| c["sample_from_anchor"] = json!(true)),
        &["sample_from_anchor"],
    );
    assert_says(
        &refused(TinyLayout::Speculators, |c| c["speculators_model_type"] = json!("dspark")),
        &["dspark"],
    );
    for kind in ["gated", "rnn"] {
        let config = |c: &mut Value| (c["markov_rank"], c["markov_head_type"]) = (json!(256), json!(kind));
        assert_says(&refused(TinyLayout::Flat, config), &["markov_head_type", kind, "vanilla"]);
    }
    assert_says(&refused(TinyLayout::Speculators, |c| c["markov_rank"] = json!(256)), &["markov_rank"]);
    let error = refused(TinyLayout::Flat, |c| c["markov_rank"] = json!(256));
    assert_says(&error, &["markov_head.markov_w1.weight"]);
}

#[test]
fn layer_types_are_checked() {
    let with = |types: Value| refused(TinyLayout::Flat, move |config| config["layer_types"] = types);
    assert_says(&with(json!(["full_attention"])), &["layer_types", "2 names"]);
    assert_says(&with(json!(["full_attention", "chunked_attention"])), &["layer_types", "chunked_attention"]);
    assert_says(&with(json!(["full_attention", "sliding_attention"])), &["sliding_window"]);
}

#[test]
fn tensors_of_variants_are_refused_and_copies_noted() {
    let with = |name: &'static str| {
        pair(TinyLayout::Flat, |_| {}, move |file| file.floats(name, &[1, 2], &[1.0; 2], Dtype::F32))
    };
    for (name, word) in [
        ("aux_hidden_norms.0.weight", "norm per tapped layer"),
        ("layers.0.self_attn.qkv_proj.weight", "fused"),
        ("layers.0.self_attn.g_proj.weight", "gate"),
        ("candidate_selector.successor_codebook", "DFlash2"),
        ("markov_head.markov_w1", "DSpark"),
    ] {
        assert_says(&with(name).refused(), &[name, word, "not supported"]);
    }
    let error = with("layers.0.mystery.weight").refused();
    assert!(
        matches!(&error, ModelError::UnusedTensors { names, .. } if names == &["layers.0.mystery.weight"])
    );
    for name in ["embed_tokens.weight", "lm_head.weight"] {
        let draft = with(name).load().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(draft.spec().notes.len(), 1, "{name}");
    }
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    fs::write(pair.draft.join("mask_embedding.pt"), b"").unwrap();
    assert_says(&pair.refused(), &["mask_embedding.pt"]);
}

#[test]
fn a_map_of_a_reduced_vocabulary_is_checked() {
    let own = TinyLayout::SpeculatorsOwn(40);
    let d2t = |offset: i64| (0..40).flat_map(|_| offset.to_le_bytes()).collect::<Vec<u8>>();
    for offset in [58, -1, i64::MAX, i64::MIN] {
        let pair = pair(own, |_| {}, |file| file.raw("d2t", "I64", &[40], &d2t(offset)));
        assert_says(&pair.refused(), &["d2t", "outside"]);
    }
    let wrong = pair(own, |_| {}, |file| file.raw("d2t", "I64", &[40], &d2t(1)));
    assert_says(&wrong.refused(), &["t2d"]);
    let wrong = pair(own, |config| config["draft_vocab_size"] = json!(39), |_| {});
    assert!(matches!(wrong.refused(), ModelError::WrongShape { tensor, .. } if tensor == "d2t"));
    let wrong = pair(TinyLayout::Speculators, |config| config["draft_vocab_size"] = json!(39), |_| {});
    assert!(matches!(wrong.refused(), ModelError::MissingTensor { tensor, .. } if tensor == "d2t"));
}

/// A map without a head takes the rows of the target's head: the same ids win as in the full vocabulary
/// when the map reaches all of them.
#[test]
fn a_short_head_is_gathered_from_the_target() {
    let zeros = vec![0; 97 * 8];
    let whole = pair(TinyLayout::Flat, |_| {}, |_| {});
    let mapped = pair(TinyLayout::Flat, |_| {}, |file| file.raw("d2t", "I64", &[97], &zeros));
    let odd = (0..48i64).flat_map(|row| (row + 1).to_le_bytes()).collect::<Vec<_>>();
    let short = pair(TinyLayout::Flat, |_| {}, |file| file.raw("d2t", "I64", &[48], &odd));
    let propose = |pair: &Pair| {
        let draft = pair.load().unwrap();
        let (mut ws, mut state, mut out) = (draft.workspace(), draft.new_state(), Vec::new());
        let features = common::tensor(pair.target.backend(), &[vec![0.3; 64], vec![-0.1; 64]]);
        draft.observe(&mut ws, &mut state, &features, 0..2, 0);
        draft.propose(&mut ws, &mut [&mut state], &[9], 8, &mut out).unwrap();
        out.remove(0)
    };
    let (whole, mapped, short) = (propose(&whole), propose(&mapped), propose(&short));
    assert_eq!(whole, mapped);
    for (whole, short) in whole.iter().zip(&short) {
        assert!(short.id % 2 == 1 && short.logit <= whole.logit && short.logsumexp < whole.logsumexp);
        assert!(
            whole.id % 2 == 0 || *short == dflash_tensor::Choice { logsumexp: short.logsumexp, ..*whole }
        );
    }
}

#[test]
fn quantisation_plans_are_checked() {
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    for (bits, group) in [(3, 64), (6, 32), (4, 16)] {
        let options = DraftOptions { quant: Some(DraftQuant { bits, group }), ..DraftOptions::default() };
        let error = Draft::load(&pair.draft, pair.target.as_ref(), options).err().expect("an odd plan");
        assert!(matches!(error, ModelError::Quantization { .. }), "{error}");
    }
}

fn load_quantised(pair: &Pair, group: u16) -> Result<Draft, ModelError> {
    let options = DraftOptions { quant: Some(DraftQuant { bits: 8, group }), ..DraftOptions::default() };
    Draft::load(&pair.draft, pair.target.as_ref(), options)
}

/// The tiny draft has matrices of 32 inputs and, as projection of the features and in every MLP, of 64.
#[test]
fn matrices_that_do_not_divide_into_groups_are_noted() {
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    let notes = |group| load_quantised(&pair, group).unwrap().spec().notes.clone();
    assert!(notes(32).is_empty());
    assert_eq!(notes(64), ["12 of 15 matrices are not a multiple of 64 wide and stay in F32"]);
}

#[test]
fn a_plan_that_fits_no_matrix_is_an_error_with_a_hint() {
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    let error = load_quantised(&pair, 128).err().expect("no matrix is 128 wide");
    assert!(matches!(error, ModelError::Quantization { .. }), "{error}");
    assert_says(&error, &["none of its 15 matrices is a multiple of 128 wide", "take gs64 or gs32"]);
}

#[test]
fn unknown_keys_are_noted_in_every_layout() {
    let mut unread = LAYOUTS.map(|layout| (layout, "shiny_new_thing", "shiny_new_thing")).to_vec();
    unread.push((TinyLayout::Flat, "causal", "causal"));
    for (layout, key, name) in unread {
        let pair = pair(layout, |config| config[key] = json!(1), |_| {});
        let notes = pair.load().unwrap().spec().notes.clone();
        assert_eq!(notes, [format!("keys of config.json that are not read: {name}")], "{layout:?}");
    }
    let section = "transformer_layer_config";
    let pair = pair(TinyLayout::Speculators, |config| config[section]["shiny"] = json!(1), |_| {});
    assert_eq!(
        pair.load().unwrap().spec().notes,
        ["keys of config.json that are not read: transformer_layer_config.shiny"]
    );
}

/// A draft half as wide as its target, with both tables.
fn narrow(layout: TinyLayout) -> Pair {
    let small = TinyLlama { hidden: 16, ..TinyLlama::default() };
    let tiny = |layout| TinyDraft { layout, ..TinyDraft::default() };
    let config = |config: &mut Value| {
        *config = tiny(layout).config(&small);
        config["target_hidden_size"] = json!(32);
    };
    pair(layout, config, |file| {
        *file = tiny(layout).tensors(&small);
        file.floats("fc.weight", &[16, 64], &[0.1; 16 * 64], Dtype::F32);
        if layout == TinyLayout::Flat {
            for table in ["embed_tokens.weight", "lm_head.weight"] {
                file.floats(table, &[97, 16], &[0.1; 97 * 16], Dtype::F32);
            }
        }
    })
}

#[test]
fn only_tables_that_are_used_allow_another_width() {
    let error = narrow(TinyLayout::Flat).refused();
    let ModelError::Mismatch { differences, .. } = &error else { panic!("{error}") };
    assert_eq!(differences.len(), 1, "{error}");
    assert_says(&error, &["`hidden_size` is 16, the target has 32"]);

    let narrow = narrow(TinyLayout::SpeculatorsOwn(40));
    let draft = narrow.load().unwrap_or_else(|error| panic!("{error}"));
    let (mut ws, mut state, mut out) = (draft.workspace(), draft.new_state(), Vec::new());
    let features = common::tensor(narrow.target.backend(), &[vec![0.3; 64]]);
    draft.observe(&mut ws, &mut state, &features, 0..1, 0);
    draft.propose(&mut ws, &mut [&mut state], &[9], 8, &mut out).unwrap();
    assert_eq!(out[0].len(), 7);
}

#[test]
fn a_target_width_may_stand_in_either_place() {
    let error = refused(TinyLayout::Nested, |config| {
        config["dflash_config"]["target_hidden_size"] = json!(48);
    });
    assert_says(&error, &["`target_hidden_size` is 48, the target has 32"]);
}

#[test]
fn truncated_weights_are_named_with_their_place() {
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    let path = pair.draft.join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for end in [0, 4, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..end]).unwrap();
        let error = pair.refused();
        assert_says(&error, &[pair.draft.to_str().unwrap(), "too short: model.safetensors"]);
    }
}

#[test]
fn a_target_is_no_draft() {
    let pair = pair(TinyLayout::Flat, |_| {}, |_| {});
    let target = pair.draft.parent().unwrap().join("target");
    let error = Draft::load(&target, pair.target.as_ref(), DraftOptions::default()).err().unwrap();
    assert!(matches!(error, ModelError::NotADraft { .. }), "{error}");
    assert_says(&error, &["LlamaForCausalLM"]);
}

#[test]
fn a_draft_that_computes_nan_fails_without_harm() {
    let nan =
        pair(TinyLayout::Flat, |_| {}, |file| file.floats("norm.weight", &[32], &[f32::NAN; 32], Dtype::F32));
    let draft = nan.load().unwrap();
    let (mut ws, mut state, mut out) = (draft.workspace(), draft.new_state(), Vec::new());
    let features = common::tensor(nan.target.backend(), &[vec![0.3; 64]]);
    draft.observe(&mut ws, &mut state, &features, 0..1, 0);
    for _ in 0..2 {
        let error = draft.propose(&mut ws, &mut [&mut state], &[9], 8, &mut out).unwrap_err();
        assert!(matches!(error, dflash_tensor::BackendError::NotANumber { .. }), "{error}");
        assert_eq!(state.len(), 1);
    }
}
