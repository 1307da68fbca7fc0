//! Block-diffusion drafts, on every family.

use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Decoder, DecoderOptions, Proposer, StepCosts, VerifyMode};
use dflash_models::{Draft, DraftOptions, Target};
use dflash_testkit::{TinyDraft, TinyLayout};

use crate::common::cases::{Case, data};
use crate::common::truth::{Answers, Truth, draft_for};
use crate::common::*;

/// A context that is cut from the first block on.
pub const CUT: DraftOptions = DraftOptions { sink: 4, window: Some(24), quant: None };

/// Random drafts in every toolkit's layout, for a target of `layers` layers.
pub fn drafts(layers: usize) -> [TinyDraft; 4] {
    let taps = vec![layers - 1, 0];
    let draft = TinyDraft { taps: taps.clone(), ..TinyDraft::default() };
    let all = (0..layers).collect::<Vec<_>>();
    [
        TinyDraft { window: Some(6), ..draft.clone() },
        TinyDraft { layout: TinyLayout::Nested, taps: all, block: BLOCK, markov_rank: 8, ..draft.clone() },
        TinyDraft { layout: TinyLayout::Speculators, seed: 5, ..draft.clone() },
        TinyDraft { layout: TinyLayout::SpeculatorsOwn(40), layers: 1, ..draft },
    ]
}

fn options_of(draft: &Draft, mode: VerifyMode, cap: usize) -> DecoderOptions {
    DecoderOptions { block: draft.spec().block, verify_cap: cap, prefill_chunk: 11, ..options(mode) }
}

/// A draft with context copy beside.
pub fn with_copy(target: Box<dyn Target>, draft: Draft, mode: VerifyMode, cap: usize) -> Decoder {
    let options = options_of(&draft, mode, cap);
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(options.block)), Box::new(BlockDiffusion::new(draft))];
    Decoder::new(target, proposers, options)
}

fn check(decoder: &Decoder, truth: &Truth<'_>, what: &str) {
    let got = speculative(decoder, &truth.prompt, truth.ids.len());
    let what = format!("{}: {what}, {:?} after {}", truth.case.name, truth.answers, truth.prompt.len());
    assert_eq!(got.ids, truth.ids, "{what}");
    assert!(got.stats.drafted > 0, "{what}");
}

#[test]
fn every_family_with_drafts_of_every_layout() {
    for case in Case::all() {
        for answers in Answers::BOTH {
            let truths = [1, 2, 3, 30].map(|len| Truth::new(&case, answers, len, 50));
            for (seed, tiny) in drafts(truths[0].target().spec().layers).into_iter().enumerate() {
                let target = truths[0].target();
                let draft = draft_for(target.as_ref(), &tiny, CUT);
                let decoder =
                    with_copy(target, draft, VerifyMode::Fixed, 0).with_policy(random_widths(seed as u64));
                truths.iter().for_each(|truth| check(&decoder, truth, &format!("{:?}", tiny.layout)));
            }
        }
    }
}

#[test]
fn a_real_draft_changes_nothing_in_any_mode_at_any_cap() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 30, 60);
        for (mode, cap) in [
            (VerifyMode::Fixed, 0),
            (VerifyMode::Fixed, 1),
            (VerifyMode::Fixed, 2),
            (VerifyMode::Fixed, 5),
            (VerifyMode::Adaptive, 0),
            (VerifyMode::Adaptive, 3),
            (VerifyMode::Off, 0),
        ] {
            let target = truth.target();
            let tiny = TinyDraft { taps: vec![target.spec().layers - 1], ..TinyDraft::default() };
            let draft = draft_for(target.as_ref(), &tiny, CUT);
            let mut decoder = with_copy(target, draft, mode, cap);
            decoder.set_costs(StepCosts::measure(&decoder, 1, &mut || {}).unwrap());
            let got = speculative(&decoder, &truth.prompt, 60);
            assert_eq!(got.ids, truth.ids, "{}: {mode:?}, cap {cap}", case.name);
            let widest = got.stats.cycles_by_width.keys().max();
            assert!(widest.is_some_and(|&width| width <= decoder.options().max_width()));
        }
    }
}

#[test]
fn a_draft_of_short_blocks_beside_copies_of_long_ones() {
    let case = Case::tiny_llama();
    let truth = Truth::new(&case, Answers::Greedy, 30, 90);
    for mode in [VerifyMode::Adaptive, VerifyMode::Tree, VerifyMode::Fixed] {
        let target = truth.target();
        let tiny = TinyDraft { block: 4, taps: vec![target.spec().layers - 1], ..TinyDraft::default() };
        let draft = draft_for(target.as_ref(), &tiny, CUT);
        let proposers: Vec<Box<dyn Proposer>> =
            vec![Box::new(ContextCopy::new(BLOCK)), Box::new(BlockDiffusion::new(draft))];
        let mut decoder = Decoder::new(target, proposers, options(mode));
        let costs = StepCosts::measure(&decoder, 4, &mut || {}).unwrap();
        let proposed = costs.propose[1].as_ref().expect("costs of the draft").points();
        assert_eq!(
            proposed.iter().map(|point| point.0).collect::<Vec<_>>(),
            [2, 4, 8, 16],
            "times 1, 2 and 4"
        );
        decoder.set_costs(nearly_free(2));
        let got = speculative(&decoder, &truth.prompt, 90);
        assert_eq!(got.ids, truth.ids, "{mode:?}");
        let widest = got.stats.cycles_by_width.keys().max();
        assert!(widest.is_some_and(|&width| width > 4), "copies are longer: {:?}", got.stats);
        assert!(got.stats.cycles_by_proposer.contains_key("copy"), "{:?}", got.stats);
    }
}

#[test]
fn long_runs_with_a_draft() {
    for name in ["qwen3_5/wrapper-r2", "qwen3_5_moe/flat-separate-r3", "gemma4/ple", "lfm2/bias"] {
        let case = Case::long(name);
        for answers in Answers::BOTH {
            let truth = Truth::new(&case, answers, 12, 640);
            let target = truth.target();
            let draft = draft_for(target.as_ref(), &drafts(target.spec().layers)[0], DraftOptions::default());
            let decoder = with_copy(target, draft, VerifyMode::Fixed, 0).with_policy(random_widths(3));
            check(&decoder, &truth, "a long run");
        }
    }
}

#[test]
fn plain_steps_between_drafted_ones_leave_no_hole_in_the_draft_context() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 12, 90);
        let target = truth.target();
        let draft = draft_for(target.as_ref(), &drafts(target.spec().layers)[1], DraftOptions::default());
        let options = options_of(&draft, VerifyMode::Fixed, 0);
        // The draft itself asserts that its context covers every committed position when it proposes.
        let decoder = Decoder::new(target, vec![Box::new(BlockDiffusion::new(draft))], options)
            .with_policy(random_widths(11));
        check(&decoder, &truth, "no hole");
    }
}

#[test]
fn drafts_in_gguf_files() {
    let case = Case::data("llama/tied");
    let truth = Truth::hashed(&case, 20, 120);
    for name in ["flat-f32", "nested-f16", "q4_0", "q8_0", "sliding", "speculators-own", "yarn"] {
        let (target, path) = (truth.target(), data(&format!("draft/gguf/{name}.gguf")));
        let draft = Draft::load(&path, target.as_ref(), DraftOptions::default()).expect("a sound draft");
        let decoder = with_copy(target, draft, VerifyMode::Fixed, 0).with_policy(random_widths(1));
        check(&decoder, &truth, name);
    }
}
