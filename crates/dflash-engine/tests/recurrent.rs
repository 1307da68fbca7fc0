//! The lossless law on targets with recurrent layers, whose state must go back when a draft is wrong.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Decoder, EngineHandle, EngineOptions, Event, FinishReason, Request, VerifyMode};
use dflash_models::{Draft, DraftOptions, Target};
use dflash_testkit::{Dtype, Rng, Script, TensorFile, TinyDraft, TinyLlama};
use serde_json::Value;
use tempfile::TempDir;

/// Gated DeltaNet with one, two and three value heads a key head, experts, short convolutions.
const TARGETS: [&str; 7] = [
    "qwen3_5/flat-r1",
    "qwen3_5/mlx-r2",
    "qwen3_5/wrapper-r3",
    "qwen3_5_moe/fused",
    "mlx/qwen3_5_moe-4bit-gs64",
    "qwen3_next/mixed-r2",
    "lfm2/bias",
];

const SCRIPTS: [Script; 5] =
    [Script::Oracle, Script::RightFor(1), Script::RightFor(3), Script::Random, Script::Hostile];

/// A copy of a checkpoint. Where its tables were tied the head is another one: a model without training that
/// says again what it just read would hide a wrong state.
fn checkpoint(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data").join(name);
    for file in ["config.json", "model.safetensors"] {
        fs::copy(data.join(file), dir.path().join(file)).unwrap();
    }
    untie(dir.path());
    dir
}

fn untie(dir: &Path) {
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    if config["tie_word_embeddings"] == false {
        return;
    }
    config["tie_word_embeddings"] = false.into();
    if let Some(text) = config.get_mut("text_config") {
        text["tie_word_embeddings"] = false.into();
    }
    fs::write(path, config.to_string()).unwrap();
    let mut head = TensorFile::default();
    head.floats("lm_head.weight", &[112, 32], &Rng::new(1).bells(112 * 32, 0.5), Dtype::F32);
    head.write(&dir.join("model-head.safetensors"));
}

/// Ids of plain decoding after a prompt; a state that went wrong would show in them.
fn truth(dir: &Path, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let ids = plain(&decoder(dir, Vec::new()), prompt, tokens).ids;
    let distinct = ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(ids.len() < 30 || distinct > 3, "{} repeats itself: {ids:?}", dir.display());
    ids
}

fn vocab(dir: &Path) -> usize {
    target(dir).spec().vocab
}

#[test]
fn any_draft_at_any_width_gives_the_ids_of_plain_decoding() {
    for name in TARGETS {
        let checkpoint = checkpoint(name);
        let dir = checkpoint.path();
        for len in [1, 2, 5, 37] {
            let prompt = prompt(len, vocab(dir), len as u64);
            let truth = truth(dir, &prompt, 50);
            let whole = [&prompt[..], &truth].concat();
            for (seed, script) in SCRIPTS.into_iter().enumerate() {
                let scripted = scripted(&whole, script, vocab(dir), 1);
                let proposers = vec![scripted, Box::new(ContextCopy::new(BLOCK)) as _];
                let options =
                    dflash_engine::DecoderOptions { prefill_chunk: 16, ..options(VerifyMode::Fixed) };
                let decoder =
                    Decoder::new(target(dir), proposers, options).with_policy(random_widths(seed as u64));
                let found = speculative(&decoder, &prompt, 50).ids;
                assert_eq!(found, truth, "{name} {script:?} after {len}");
            }
        }
    }
}

/// A draft that taps the last layer, and one layer twice.
fn draft(target: &dyn Target) -> Draft {
    let spec = target.spec();
    let like =
        TinyLlama { layers: spec.layers, hidden: spec.hidden, vocab: spec.vocab, ..TinyLlama::default() };
    let taps = vec![spec.layers - 1, 0, spec.layers - 1];
    let dir = tempfile::tempdir().unwrap();
    TinyDraft { taps, ..TinyDraft::default() }.write(dir.path(), &like);
    Draft::load(dir.path(), target, DraftOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn drafted(dir: &Path) -> Decoder {
    let target = target(dir);
    let draft = draft(target.as_ref());
    let proposers = vec![Box::new(BlockDiffusion::new(draft)) as _];
    Decoder::new(target, proposers, options(VerifyMode::Fixed)).with_policy(random_widths(3))
}

#[test]
fn a_draft_with_odd_taps_gives_the_ids_of_plain_decoding() {
    for name in TARGETS {
        let checkpoint = checkpoint(name);
        let dir = checkpoint.path();
        let prompt = prompt(9, vocab(dir), 2);
        assert_eq!(speculative(&drafted(dir), &prompt, 60).ids, truth(dir, &prompt, 60), "{name}");
    }
}

#[test]
fn a_request_that_is_dropped_midway_leaves_nothing_behind() {
    for name in TARGETS {
        let checkpoint = checkpoint(name);
        let dir = checkpoint.path();
        let prompt = prompt(7, vocab(dir), 5);
        let engine = EngineHandle::start(
            drafted(dir),
            EngineOptions { max_batch: 1, waiting: 2, step_rows: None, prefix: None },
        );
        let dropped = engine.submit(Request::new(prompt.iter().rev().copied().collect(), 200)).unwrap();
        dropped.into_iter().find(|event| matches!(event, Event::Tokens(_))).expect("it had begun");
        let tokens = |event| if let Event::Tokens(ids) = event { ids } else { Vec::new() };
        let next = engine.submit(Request::new(prompt.clone(), 30)).unwrap();
        assert_eq!(next.into_iter().flat_map(tokens).collect::<Vec<_>>(), truth(dir, &prompt, 30), "{name}");
    }
}

#[test]
fn a_stop_as_the_first_id_and_the_end_of_the_context() {
    for name in TARGETS {
        let checkpoint = checkpoint(name);
        let dir = checkpoint.path();
        let start = prompt(3, vocab(dir), 6);
        let first = truth(dir, &start, 1);
        let stopped = answer(&drafted(dir), Request { stop_ids: first.clone(), ..Request::new(start, 20) });
        assert_eq!((stopped.ids, stopped.reason), (first, FinishReason::Stop), "{name}");

        let context = target(dir).spec().context;
        let full = prompt(context - 21, vocab(dir), 8);
        let cut = answer(&drafted(dir), Request::new(full.clone(), 1000));
        assert_eq!((cut.ids.len(), cut.reason), (21, FinishReason::Length), "{name}");
        assert_eq!(cut.ids, truth(dir, &full, 1000), "{name}");
    }
}
