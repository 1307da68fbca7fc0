//! Guards that say which ids may come: the answer is that of plain decoding with the same guard.

use dflash_engine::proposer::{BlockDiffusion, ContextCopy, Grammar};
use dflash_engine::{
    Decoder, Decoding, EngineError, Event, Proposer, Request, Sampling, SamplingParams, TokenGuard,
    TokenMask, Verdict, VerifyMode,
};
use dflash_models::DraftOptions;
use dflash_testkit::{Script, TinyDraft};

use crate::common::cases::Case;
use crate::common::lots::Lots;
use crate::common::sampled::samplings;
use crate::common::truth::{SCRIPTS, draft_for};
use crate::common::*;

const TOKENS: usize = 60;

/// A prompt under a guard, with its plain answer.
struct Guarded<'a> {
    case: &'a Case,
    sampling: Sampling,
    seed: u64,
    vocab: usize,
    prompt: Vec<u32>,
    answer: Answer,
}

impl<'a> Guarded<'a> {
    fn new(case: &'a Case, sampling: Sampling, seed: u64) -> Self {
        let decoder = decoder(&case.path, Vec::new());
        let vocab = decoder.target().spec().vocab;
        let prompt = prompt(9, vocab, seed);
        let request = Request { decoding: Decoding::Plain, ..request(&prompt, &sampling, vocab, seed) };
        let answer = answer(&decoder, request);
        assert_eq!(answer.ids.len(), TOKENS, "{}", case.name);
        Self { case, sampling, seed, vocab, prompt, answer }
    }

    fn scripted(&self, script: Script) -> Box<dyn Proposer> {
        scripted(&[&self.prompt[..], &self.answer.ids].concat(), script, self.vocab, self.seed)
    }

    fn check(&self, decoder: &Decoder, what: &str) -> Answer {
        let got = answer(decoder, request(&self.prompt, &self.sampling, self.vocab, self.seed));
        let what = format!("{}: {what}, {:?}", self.case.name, self.sampling);
        assert_eq!((&got.ids, &got.logprobs), (&self.answer.ids, &self.answer.logprobs), "{what}");
        got
    }
}

fn request(prompt: &[u32], sampling: &Sampling, vocab: usize, seed: u64) -> Request {
    let sampling = SamplingParams::new(sampling.clone()).expect("valid parameters");
    let guard = Some(Box::new(Lots::new(seed, vocab)) as _);
    let logprobs = (seed % 2 == 1).then_some(2);
    Request { guard, sampling, logprobs, ..Request::new(prompt.to_vec(), TOKENS) }
}

/// Greedy without logits, greedy with them, and all kinds of sampling.
fn all() -> Vec<Sampling> {
    [Sampling::default(), Sampling::default()].into_iter().chain(samplings()).collect()
}

#[test]
fn random_masks_with_every_script_chains_and_trees() {
    for case in Case::kinds() {
        let mut accepted = 0;
        for (seed, sampling) in (0..).zip(all()) {
            let guarded = Guarded::new(&case, sampling, seed);
            for script in SCRIPTS {
                let proposers =
                    vec![guarded.scripted(script), Box::new(Grammar::new(BLOCK)) as Box<dyn Proposer>];
                let decoder = Decoder::new(target(&case.path), proposers, options(VerifyMode::Fixed));
                let got = guarded.check(&decoder.with_policy(random_widths(seed)), &format!("{script:?}"));
                accepted += got.stats.accepted;
            }
        }
        assert!(accepted > 100, "{}: {accepted} ids were accepted", case.name);
    }
}

#[test]
fn every_mode_with_a_draft() {
    let case = Case::tiny_llama();
    for (seed, sampling) in (0..).zip(all()) {
        let guarded = Guarded::new(&case, sampling, seed);
        for mode in [VerifyMode::Adaptive, VerifyMode::Tree, VerifyMode::Fixed, VerifyMode::Off] {
            let target = target(&case.path);
            let tiny = TinyDraft { taps: vec![target.spec().layers - 1], ..TinyDraft::default() };
            let draft = draft_for(target.as_ref(), &tiny, DraftOptions::default());
            let block = draft.spec().block;
            let proposers: Vec<Box<dyn Proposer>> = vec![
                Box::new(ContextCopy::new(block)),
                Box::new(Grammar::new(block)),
                Box::new(BlockDiffusion::new(draft)),
            ];
            let mut decoder = Decoder::new(target, proposers, options(mode));
            decoder.set_costs(nearly_free(3));
            guarded.check(&decoder, &format!("{mode:?}"));
        }
    }
}

/// Allows one id at a time, and expects it.
struct Forced {
    ids: Vec<u32>,
    at: usize,
    mask: TokenMask,
}

impl TokenGuard for Forced {
    fn push(&mut self, id: u32) -> Verdict {
        assert_eq!(id, self.ids[self.at]);
        self.at += 1;
        Verdict::Go
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        self.mask = TokenMask::new(97);
        self.mask.set(self.ids[self.at]);
        Some(&self.mask)
    }

    fn expected(&mut self) -> Vec<u32> {
        self.ids[self.at..].to_vec()
    }
}

#[test]
fn expected_ids_are_verified_together() {
    let case = Case::tiny_llama();
    let ids = prompt(100, 97, 4);
    for mode in [VerifyMode::Fixed, VerifyMode::Adaptive] {
        let proposers: Vec<Box<dyn Proposer>> = vec![Box::new(Grammar::new(BLOCK))];
        let mut decoder = Decoder::new(target(&case.path), proposers, options(mode));
        decoder.set_costs(nearly_free(1));
        let forced = Forced { ids: ids.clone(), at: 0, mask: TokenMask::default() };
        let got = answer(
            &decoder,
            Request { guard: Some(Box::new(forced)), ..Request::new(vec![1, 2], ids.len() - 1) },
        );
        assert_eq!(got.ids, ids[..ids.len() - 1]);
        assert!(got.stats.cycles < 25 && got.stats.cycles_by_proposer["grammar"] > 5, "{:?}", got.stats);
    }
}

/// Allows nothing after some ids.
struct Nothing {
    left: usize,
    mask: TokenMask,
}

impl TokenGuard for Nothing {
    fn push(&mut self, _: u32) -> Verdict {
        self.left -= 1;
        Verdict::Go
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        (self.left == 0).then_some(&self.mask)
    }
}

#[test]
fn a_mask_without_an_id_that_can_be_chosen_is_an_error() {
    let case = Case::tiny_llama();
    let bare = decoder(&case.path, Vec::new());
    let vocab = bare.target().spec().vocab;
    let mut beyond = TokenMask::new(vocab + 40);
    (vocab..vocab + 40).for_each(|id| beyond.set(id as u32));
    for mask in [TokenMask::default(), TokenMask::new(vocab), beyond] {
        for left in [0, 1, 5] {
            let guard = Some(Box::new(Nothing { left, mask: mask.clone() }) as _);
            let request = Request { guard, ..Request::new(vec![1, 2, 3], 20) };
            let error = bare.decode(request, &mut |_| true).unwrap_err();
            assert_eq!(error, EngineError::NothingAllowed { position: 3 + left });
        }
    }
}

#[test]
fn what_was_committed_before_a_failure_is_delivered_whatever_was_drafted() {
    let case = Case::tiny_llama();
    let bare = decoder(&case.path, Vec::new());
    let vocab = bare.target().spec().vocab;
    let truth = plain(&bare, &[1, 2, 3], 20).ids;
    let oracle = scripted(&[&[1, 2, 3], &truth[..]].concat(), Script::Oracle, vocab, 1);
    let drafting = decoder(&case.path, vec![oracle]);
    for left in [1, 2, 5, 9] {
        for decoder in [&bare, &drafting] {
            let guard = Some(Box::new(Nothing { left, mask: TokenMask::new(vocab) }) as _);
            let request = Request { guard, ..Request::new(vec![1, 2, 3], 20) };
            let mut ids = Vec::new();
            let failed = decoder.decode(request, &mut |event| {
                if let Event::Tokens(new) = event {
                    ids.extend(new);
                }
                true
            });
            assert_eq!(failed, Err(EngineError::NothingAllowed { position: 3 + left }));
            assert_eq!(ids, truth[..left], "{left}");
        }
    }
}
