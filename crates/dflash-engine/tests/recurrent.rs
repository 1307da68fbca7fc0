//! The lossless law on targets with recurrent layers, whose state must go back when a draft is wrong.

mod common;

use std::path::{Path, PathBuf};

use common::*;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Decoder, EngineHandle, Event, FinishReason, Request, VerifyMode};
use dflash_models::{Draft, DraftOptions, Target};
use dflash_testkit::{Script, TinyDraft, TinyLlama};

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

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data").join(name)
}

/// Ids of plain decoding after a prompt; a state that went wrong would show in them.
fn truth(name: &str, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let ids = plain(&decoder(&path(name), Vec::new()), prompt, tokens).ids;
    let distinct = ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(ids.len() < 30 || distinct > 3, "{name} repeats itself: {ids:?}");
    ids
}

fn vocab(name: &str) -> usize {
    target(&path(name)).spec().vocab
}

#[test]
fn any_draft_at_any_width_gives_the_ids_of_plain_decoding() {
    for name in TARGETS {
        for len in [1, 2, 5, 37] {
            let prompt = prompt(len, vocab(name), len as u64);
            let truth = truth(name, &prompt, 50);
            let whole = [&prompt[..], &truth].concat();
            for (seed, script) in SCRIPTS.into_iter().enumerate() {
                let scripted = scripted(&whole, script, vocab(name), 1);
                let proposers = vec![scripted, Box::new(ContextCopy::new(BLOCK)) as _];
                let options =
                    dflash_engine::DecoderOptions { prefill_chunk: 16, ..options(VerifyMode::Fixed) };
                let decoder = Decoder::new(target(&path(name)), proposers, options)
                    .with_policy(random_widths(seed as u64));
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

fn drafted(name: &str) -> Decoder {
    let target = target(&path(name));
    let draft = draft(target.as_ref());
    let proposers = vec![Box::new(BlockDiffusion::new(draft)) as _];
    Decoder::new(target, proposers, options(VerifyMode::Fixed)).with_policy(random_widths(3))
}

#[test]
fn a_draft_with_odd_taps_gives_the_ids_of_plain_decoding() {
    for name in TARGETS {
        let prompt = prompt(9, vocab(name), 2);
        assert_eq!(speculative(&drafted(name), &prompt, 60).ids, truth(name, &prompt, 60), "{name}");
    }
}

#[test]
fn a_request_that_is_dropped_midway_leaves_nothing_behind() {
    for name in TARGETS {
        let prompt = prompt(7, vocab(name), 5);
        let engine = EngineHandle::start(drafted(name), 2);
        let dropped = engine.submit(Request::new(prompt.iter().rev().copied().collect(), 200)).unwrap();
        dropped.into_iter().find(|event| matches!(event, Event::Tokens(_))).expect("it had begun");
        let tokens = |event| if let Event::Tokens(ids) = event { ids } else { Vec::new() };
        let next = engine.submit(Request::new(prompt.clone(), 30)).unwrap();
        assert_eq!(next.into_iter().flat_map(tokens).collect::<Vec<_>>(), truth(name, &prompt, 30), "{name}");
    }
}

#[test]
fn a_stop_as_the_first_id_and_the_end_of_the_context() {
    for name in TARGETS {
        let start = prompt(3, vocab(name), 6);
        let first = truth(name, &start, 1);
        let stopped = answer(&drafted(name), Request { stop_ids: first.clone(), ..Request::new(start, 20) });
        assert_eq!((stopped.ids, stopped.reason), (first, FinishReason::Stop), "{name}");

        let context = target(&path(name)).spec().context;
        let full = prompt(context - 21, vocab(name), 8);
        let cut = answer(&drafted(name), Request::new(full.clone(), 1000));
        assert_eq!((cut.ids.len(), cut.reason), (21, FinishReason::Length), "{name}");
        assert_eq!(cut.ids, truth(name, &full, 1000), "{name}");
    }
}
