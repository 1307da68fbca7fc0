//! The lossless law: with any draft, at any width, the ids are those of plain decoding.

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{
    Curve, FinishReason, Fixed, Offer, ProposeRequest, Proposer, ProposerState, Request, StepCosts,
    TokenGuard, Verdict, VerifyMode,
};
use dflash_models::{Draft, DraftOptions};
use dflash_tensor::{BackendError, Tensor};
use dflash_testkit::{Script, TinyDraft, TinyLlama};

const SCRIPTS: [Script; 7] = [
    Script::Oracle,
    Script::RightFor(0),
    Script::RightFor(1),
    Script::RightFor(3),
    Script::RightFor(7),
    Script::Random,
    Script::Hostile,
];

struct Truth {
    dir: tempfile::TempDir,
    vocab: usize,
    prompt: Vec<u32>,
    ids: Vec<u32>,
}

impl Truth {
    fn new(len: usize, tokens: usize) -> Self {
        let dir = tiny_llama(&TinyLlama::default());
        let decoder = decoder(dir.path(), Vec::new());
        let vocab = decoder.target().spec().vocab;
        let prompt = prompt(len, vocab, len as u64);
        let ids = plain(&decoder, &prompt, tokens).ids;
        Self { dir, vocab, prompt, ids }
    }

    /// Prompt and answer.
    fn whole(&self) -> Vec<u32> {
        [&self.prompt[..], &self.ids].concat()
    }

    fn scripted(&self, script: Script, seed: u64) -> Box<dyn Proposer> {
        scripted(&self.whole(), script, self.vocab, seed)
    }
}

#[test]
fn every_script_at_every_fixed_width() {
    let truth = Truth::new(9, 60);
    for script in SCRIPTS {
        for width in 1..=BLOCK {
            let decoder = decoder(truth.dir.path(), vec![truth.scripted(script, 1)])
                .with_policy(move |_| Box::new(Fixed::new(width, vec![0])));
            let got = speculative(&decoder, &truth.prompt, 60);
            assert_eq!(got.ids, truth.ids, "{script:?} at width {width}");
        }
    }
}

#[test]
fn long_runs_at_random_widths_with_context_copy_beside() {
    let truth = Truth::new(20, 640);
    for (seed, script) in SCRIPTS.into_iter().enumerate() {
        let seed = seed as u64;
        let proposers = vec![truth.scripted(script, seed), Box::new(ContextCopy::new(BLOCK)) as _];
        let decoder = decoder(truth.dir.path(), proposers).with_policy(random_widths(seed));
        assert_eq!(speculative(&decoder, &truth.prompt, 640).ids, truth.ids, "{script:?}");
    }
}

#[test]
fn an_oracle_fills_every_block_and_a_wrong_draft_none() {
    let truth = Truth::new(9, 161);
    let oracle = decoder(truth.dir.path(), vec![truth.scripted(Script::Oracle, 0)]);
    let got = speculative(&oracle, &truth.prompt, 161);
    assert_eq!((got.stats.cycles, got.stats.accepted, got.stats.drafted), (10, 150, 150));
    let wrong = decoder(truth.dir.path(), vec![truth.scripted(Script::RightFor(0), 0)]);
    let got = speculative(&wrong, &truth.prompt, 161);
    assert_eq!((got.stats.cycles, got.stats.accepted), (160, 0));
}

#[test]
fn every_prompt_length_around_the_chunk() {
    let dir = tiny_llama(&TinyLlama::default());
    let whole = decoder(dir.path(), Vec::new());
    let vocab = whole.target().spec().vocab;
    for len in 1..2 * 24 + BLOCK {
        let prompt = prompt(len, vocab, 7);
        let truth = plain(&whole, &prompt, 12).ids;
        let truth_ids = [&prompt[..], &truth].concat();
        let mut options = options(VerifyMode::Fixed);
        options.prefill_chunk = 24;
        let draft = scripted(&truth_ids, Script::RightFor(2), vocab, 3);
        let chunked = dflash_engine::Decoder::new(target(dir.path()), vec![draft], options);
        assert_eq!(speculative(&chunked, &prompt, 12).ids, truth, "prompt of {len}");
    }
}

#[test]
fn a_second_request_is_as_if_the_first_had_not_been() {
    let truth = Truth::new(10, 20);
    let decoder = decoder(truth.dir.path(), vec![truth.scripted(Script::RightFor(3), 0)]);
    let long = prompt(200, truth.vocab, 99);
    speculative(&decoder, &long, 20);
    assert_eq!(speculative(&decoder, &truth.prompt, 20).ids, truth.ids);
}

#[test]
fn the_budget_is_exact() {
    let truth = Truth::new(5, 40);
    let decoder = decoder(truth.dir.path(), vec![truth.scripted(Script::Oracle, 0)]);
    for max in [0, 1, 2, 3, 15, 16, 17, 18, 33] {
        let got = speculative(&decoder, &truth.prompt, max);
        assert_eq!((got.ids.as_slice(), got.reason), (&truth.ids[..max], FinishReason::Length));
    }
}

#[test]
fn a_stop_id_ends_the_answer_wherever_it_falls() {
    let truth = Truth::new(6, 40);
    for script in [Script::Oracle, Script::RightFor(2), Script::Hostile] {
        let decoder = decoder(truth.dir.path(), vec![truth.scripted(script, 5)]);
        for stop in &truth.ids {
            let first = truth.ids.iter().position(|id| id == stop).expect("an id of the answer");
            for max in [first + 1, 40] {
                let stop_ids = vec![u32::MAX, *stop];
                let request = Request { stop_ids, ..Request::new(truth.prompt.clone(), max) };
                let got = answer(&decoder, request);
                assert_eq!(got.ids, truth.ids[..=first], "{script:?}, stop at {first}, budget {max}");
                assert_eq!(got.reason, FinishReason::Stop, "a stop inside the budget is a stop");
            }
        }
    }
}

#[test]
fn a_drafted_stop_id_that_the_target_refuses_stops_nothing() {
    let truth = Truth::new(6, 30);
    // The script's wrong ids are truth + 1; take one the answer itself never holds.
    let wrong = truth.ids.iter().map(|id| (id + 1) % truth.vocab as u32).find(|id| !truth.ids.contains(id));
    let decoder = decoder(truth.dir.path(), vec![truth.scripted(Script::RightFor(0), 0)]);
    let stop_ids = vec![wrong.expect("an id outside of the answer")];
    let got = answer(&decoder, Request { stop_ids, ..Request::new(truth.prompt.clone(), 30) });
    assert_eq!((got.ids, got.reason), (truth.ids, FinishReason::Length));
}

/// Stops at the n-th id.
struct Nth {
    left: usize,
    keep: bool,
}

impl TokenGuard for Nth {
    fn push(&mut self, _: u32) -> Verdict {
        self.left -= 1;
        if self.left == 0 { Verdict::Stop { keep: self.keep } } else { Verdict::Go }
    }
}

#[test]
fn a_guard_cuts_inside_a_block() {
    let truth = Truth::new(6, 40);
    let decoder = decoder(truth.dir.path(), vec![truth.scripted(Script::Oracle, 0)]);
    for n in 1..=20 {
        for keep in [true, false] {
            let guard = Some(Box::new(Nth { left: n, keep }) as _);
            let got = answer(&decoder, Request { guard, ..Request::new(truth.prompt.clone(), 40) });
            assert_eq!(got.ids, truth.ids[..n - usize::from(!keep)], "the guard's {n}th, keep {keep}");
            assert_eq!(got.reason, FinishReason::Stop);
        }
    }
}

#[test]
fn the_context_ends_an_answer_with_length() {
    let dir = tiny_llama(&TinyLlama { context: 64, ..TinyLlama::default() });
    let whole = decoder(dir.path(), Vec::new());
    let spec = whole.target().spec();
    let (vocab, context) = (spec.vocab, spec.context);
    for len in [1, context - 17, context - 1] {
        let prompt = prompt(len, vocab, 3);
        let truth = plain(&whole, &prompt, 1000);
        assert_eq!((truth.ids.len(), truth.reason), (context - len, FinishReason::Length));
        let all = [&prompt[..], &truth.ids].concat();
        let oracle = decoder(dir.path(), vec![scripted(&all, Script::Oracle, vocab, 0)]);
        assert_eq!(speculative(&oracle, &prompt, 1000).ids, truth.ids);
    }
    let error = whole.decode(Request::new(prompt(context, vocab, 3), 1), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("nothing can be generated"), "{error}");
}

#[test]
fn bad_prompts_are_refused() {
    let dir = tiny_llama(&TinyLlama::default());
    let decoder = decoder(dir.path(), Vec::new());
    let vocab = decoder.target().spec().vocab as u32;
    for (prompt, says) in [(vec![], "empty"), (vec![1, vocab], "vocabulary"), (vec![u32::MAX], "vocabulary")]
    {
        let error = decoder.decode(Request::new(prompt, 4), &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_consumer_that_leaves_ends_the_request() {
    let truth = Truth::new(6, 40);
    let decoder = decoder(truth.dir.path(), vec![truth.scripted(Script::RightFor(0), 0)]);
    let mut seen = 0;
    let request = Request::new(truth.prompt.clone(), 40);
    decoder
        .decode(request, &mut |_| {
            seen += 1;
            seen < 6
        })
        .unwrap();
    assert_eq!(seen, 6);
}

#[test]
fn a_real_draft_changes_nothing_in_any_mode() {
    let truth = Truth::new(30, 200);
    let draft_dir = tiny_draft(&TinyDraft::default());
    for mode in [VerifyMode::Fixed, VerifyMode::Adaptive, VerifyMode::Off] {
        for cap in [0, 1, 2, 5] {
            let target = target(truth.dir.path());
            let small = DraftOptions { sink: 4, window: Some(24), ..DraftOptions::default() };
            let draft = Draft::load(draft_dir.path(), target.as_ref(), small).expect("a sound draft");
            let block = draft.spec().block;
            let mut options = options(mode);
            (options.block, options.verify_cap, options.prefill_chunk) = (block, cap, 11);
            let proposers: Vec<Box<dyn Proposer>> =
                vec![Box::new(ContextCopy::new(block)), Box::new(BlockDiffusion::new(draft))];
            let mut decoder = dflash_engine::Decoder::new(target, proposers, options);
            decoder.set_costs(StepCosts::measure(&decoder).unwrap());
            let got = speculative(&decoder, &truth.prompt, 200);
            assert_eq!(got.ids, truth.ids, "{mode:?}, cap {cap}");
            let widest = got.stats.cycles_by_width.keys().max();
            assert!(widest.is_some_and(|&width| width <= options.max_width()));
        }
    }
}

#[test]
fn plain_steps_between_drafted_ones_leave_no_hole_in_the_draft_context() {
    let truth = Truth::new(12, 150);
    let draft_dir = tiny_draft(&TinyDraft::default());
    let target = target(truth.dir.path());
    let draft =
        Draft::load(draft_dir.path(), target.as_ref(), DraftOptions::default()).expect("a sound draft");
    // The draft itself asserts that its context covers every committed position when it proposes.
    let decoder = dflash_engine::Decoder::new(
        target,
        vec![Box::new(BlockDiffusion::new(draft))],
        options(VerifyMode::Fixed),
    )
    .with_policy(random_widths(11));
    assert_eq!(speculative(&decoder, &truth.prompt, 150).ids, truth.ids);
}

/// Drafts nothing that could be right, and counts how often it is asked.
struct Useless {
    asked: Arc<AtomicUsize>,
    /// Computes NaN, instead of drafting ids that no target has.
    nan: bool,
}

impl Proposer for Useless {
    fn name(&self) -> &'static str {
        "useless"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(())
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: BLOCK - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.nan {
                return Err(BackendError::NotANumber { row: 1, id: 0 });
            }
            request.drafted.extend((1..request.width).map(|_| u32::MAX));
        }
        Ok(())
    }
}

#[test]
fn ids_outside_of_the_vocabulary_and_nan_count_against_their_proposer() {
    let truth = Truth::new(6, 300);
    for nan in [false, true] {
        let asked = Arc::new(AtomicUsize::new(0));
        let useless = Useless { asked: Arc::clone(&asked), nan };
        let target = target(truth.dir.path());
        let options = options(VerifyMode::Adaptive);
        let mut decoder = dflash_engine::Decoder::new(target, vec![Box::new(useless)], options);
        let flat = |seconds| Curve::new(vec![(1, seconds), (16, seconds)]);
        decoder.set_costs(StepCosts { verify: flat(1.0), propose: vec![Some(flat(0.1))] });
        assert_eq!(speculative(&decoder, &truth.prompt, 300).ids, truth.ids);
        let asked = asked.load(Ordering::Relaxed);
        assert!((1..40).contains(&asked), "asked {asked} times in 300 steps");
    }
}
