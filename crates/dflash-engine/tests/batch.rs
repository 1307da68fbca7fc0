//! The batch law for whole requests: whoever joins or leaves, a request's ids, log-probabilities and end are those that
//! it has alone.

mod common;

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use common::cases::Case;
use common::hashed::Hashed;
use common::lots::Lots;
use common::sampled::samplings;
use common::truth::draft_for;
use common::*;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy, Grammar};
use dflash_engine::{
    Decoder, DecoderOptions, Decoding, EngineHandle, EngineOptions, Event, FinishReason, Offer,
    ProposeRequest, Proposer, ProposerState, Request, Sampling, SamplingParams, Ticket, TokenLogprobs,
    VerifyMode,
};
use dflash_models::{DraftOptions, Target};
use dflash_tensor::{BackendError, Tensor};
use dflash_testkit::{Rng, TinyDraft};

/// Requests of a run.
const REQUESTS: usize = 14;

/// What is asked for.
#[derive(Clone)]
struct Ask {
    prompt: Vec<u32>,
    tokens: usize,
    sampling: Sampling,
    guarded: Option<u64>,
    logprobs: Option<usize>,
    decoding: Decoding,
    stop: Option<u32>,
    /// Ids after which the next two are submitted.
    after: usize,
    /// Ids after which its consumer leaves.
    leaves: Option<usize>,
    vocab: usize,
}

impl Ask {
    /// By lot; `whole` asks use all that a request has.
    fn draw(rng: &mut Rng, vocab: usize, whole: bool) -> Self {
        let samplings = samplings();
        let sampling = match rng.below(3) {
            0 if whole => samplings[rng.below(samplings.len() as u32) as usize].clone(),
            _ => Sampling::default(),
        };
        let decodings = [Decoding::Speculative, Decoding::Speculative, Decoding::Ngram, Decoding::Plain];
        Self {
            prompt: prompt(1 + rng.below(90) as usize, vocab, u64::from(rng.below(1000))),
            tokens: rng.below(60) as usize,
            sampling,
            guarded: (whole && rng.below(3) == 0).then(|| u64::from(rng.below(1000))),
            logprobs: (whole && rng.below(2) == 0).then_some(2),
            decoding: decodings[rng.below(4) as usize],
            stop: (rng.below(3) == 0).then(|| rng.below(vocab as u32)),
            after: 4 * rng.below(3) as usize,
            leaves: (rng.below(4) == 0).then(|| rng.below(30) as usize),
            vocab,
        }
    }

    fn request(&self) -> Request {
        Request {
            stop_ids: self.stop.into_iter().collect(),
            guard: self.guarded.map(|seed| Box::new(Lots::new(seed, self.vocab)) as _),
            sampling: SamplingParams::new(self.sampling.clone()).expect("valid parameters"),
            logprobs: self.logprobs,
            decoding: self.decoding,
            ..Request::new(self.prompt.clone(), self.tokens)
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Came {
    ids: Vec<u32>,
    logprobs: Vec<TokenLogprobs>,
    end: Option<FinishReason>,
}

impl Came {
    fn see(&mut self, event: Event) {
        match event {
            Event::Tokens(ids) => self.ids.extend(ids),
            Event::Logprobs(logprobs) => self.logprobs.extend(logprobs),
            Event::Finished { reason, stats } => {
                assert_eq!(stats.completion_tokens, self.ids.len());
                self.end = Some(reason);
            }
            Event::Failed(error) => panic!("{error}"),
            Event::Admitted { .. } | Event::PrefillProgress { .. } | Event::Cycle(_) => {}
        }
    }

    fn alone(decoder: &Decoder, ask: &Ask) -> Self {
        let mut came = Self::default();
        let request = Request { decoding: Decoding::Plain, ..ask.request() };
        decoder
            .decode(request, &mut |event| {
                came.see(event);
                true
            })
            .expect("a request that can be decoded");
        came
    }
}

/// A costly proposer that knows all answers, and is often right. It counts the sequences that share its calls.
struct Knower {
    truths: Vec<Vec<u32>>,
    vocab: u32,
    shared: Arc<Mutex<usize>>,
}

impl Proposer for Knower {
    fn name(&self) -> &'static str {
        "knower"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(Rng::new(5))
    }

    fn costly(&self) -> bool {
        true
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: BLOCK - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        let mut shared = self.shared.lock().unwrap();
        *shared = requests.len().max(*shared);
        for request in requests {
            let rng = request.state.downcast_mut::<Rng>().expect("state of this proposer");
            let known = self.truths.iter().find(|truth| truth.starts_with(request.ids));
            for offset in 0..request.width - 1 {
                let right = known.and_then(|truth| truth.get(request.ids.len() + offset)).copied();
                let right = right.filter(|_| rng.below(5) > 0).unwrap_or(rng.below(self.vocab + 1));
                let place = rng.below(request.ranks as u32);
                request.drafted.extend((0..request.ranks as u32).map(|rank| match rank == place {
                    true => right,
                    false => (right + 1 + rank) % self.vocab,
                }));
            }
        }
        Ok(())
    }
}

/// A request in the engine: what has come, and its ticket until somebody drops it.
struct Guest {
    came: Arc<Mutex<Came>>,
    ticket: Arc<Mutex<Option<Ticket>>>,
}

/// Submits `asks[next]` and, each time that a few ids have come for it, the ones after.
fn submit(engine: &EngineHandle, asks: &Arc<Vec<Ask>>, next: usize, done: &Sender<(usize, Guest)>) {
    let Some(ask) = asks.get(next).cloned() else { return };
    let came = Arc::new(Mutex::new(Came::default()));
    let ticket = Arc::new(Mutex::new(None));
    let guest = Guest { came: Arc::clone(&came), ticket: Arc::clone(&ticket) };
    let (engine_too, asks, done_too) = (engine.clone(), Arc::clone(asks), done.clone());
    let mut follow = Some(next);
    let sink = Box::new(move |event: Event| {
        let mut came = came.lock().unwrap();
        came.see(event);
        let soon = came.end.is_some() || came.ids.len() >= ask.after;
        if let Some(number) = follow.take_if(|_| soon) {
            submit(&engine_too, &asks, 2 * number + 1, &done_too);
            submit(&engine_too, &asks, 2 * number + 2, &done_too);
        }
        let leaves = ask.leaves.is_some_and(|leaves| came.ids.len() >= leaves) && follow.is_none();
        // One half says so, the other drops its ticket.
        if leaves && !next.is_multiple_of(2) {
            drop(ticket.lock().unwrap().take());
        }
        !(leaves && next.is_multiple_of(2))
    });
    let held = engine.submit_to(ask.request(), sink).expect("room in the queue");
    guest.ticket.lock().unwrap().replace(held);
    done.send((next, guest)).expect("somebody waits");
}

/// Runs the asks side by side and compares each with itself alone.
fn check(
    plain: &Decoder,
    drafting: impl Fn(Vec<Vec<u32>>) -> Decoder,
    asks: Vec<Ask>,
    options: EngineOptions,
    what: &str,
) {
    let alone: Vec<Came> = asks.iter().map(|ask| Came::alone(plain, ask)).collect();
    let truths = asks.iter().zip(&alone).map(|(ask, came)| [&ask.prompt[..], &came.ids].concat()).collect();
    let engine = EngineHandle::start(drafting(truths), options);
    let (asks, (done, guests)) = (Arc::new(asks), channel());
    submit(&engine, &asks, 0, &done);
    let guests: Vec<(usize, Guest)> =
        (0..asks.len()).map(|_| guests.recv().expect("all are submitted")).collect();
    while engine.load().active + engine.load().waiting > 0 {
        std::thread::yield_now();
    }
    for (number, guest) in guests {
        let (came, whole) = (guest.came.lock().unwrap().clone(), &alone[number]);
        let what = format!("{what}: request {number}");
        match came.end {
            Some(_) => assert_eq!(&came, whole, "{what}"),
            None => {
                let leaves = asks[number].leaves.expect("only those that leave do not end");
                assert!(came.ids.len() >= leaves && whole.ids.starts_with(&came.ids), "{what}");
                assert!(whole.logprobs.starts_with(&came.logprobs), "{what}");
            }
        }
    }
    let load = engine.load();
    assert_eq!((load.active, load.waiting, load.faults), (0, 0, 0), "{what}");
}

fn asks(seed: u64, vocab: usize, whole: bool) -> Vec<Ask> {
    let mut rng = Rng::new(seed);
    (0..REQUESTS).map(|_| Ask::draw(&mut rng, vocab, whole)).collect()
}

/// Batches of all sizes, prompts in parts of all sizes.
fn sizes(seed: u64) -> EngineOptions {
    let mut rng = Rng::new(seed + 77);
    EngineOptions {
        max_batch: 1 + rng.below(8) as usize,
        waiting: REQUESTS,
        step_rows: Some(1 + rng.below(20) as usize),
        prefix: None,
    }
}

fn with(
    target: Box<dyn Target>,
    truths: Vec<Vec<u32>>,
    mode: VerifyMode,
    shared: &Arc<Mutex<usize>>,
) -> Decoder {
    let vocab = target.spec().vocab as u32;
    let proposers: Vec<Box<dyn Proposer>> = vec![
        Box::new(ContextCopy::new(BLOCK)),
        Box::new(Grammar::new(BLOCK)),
        Box::new(Knower { truths, vocab, shared: Arc::clone(shared) }),
    ];
    let mut options = options(mode);
    options.prefill_chunk = 40;
    let mut decoder = Decoder::new(target, proposers, options);
    decoder.set_costs(nearly_free(3));
    decoder
}

#[test]
fn requests_of_all_sorts_at_random_widths_and_trees() {
    for name in ["llama/tied", "qwen3_5/wrapper-r2", "lfm2/plain", "gemma4/moe", "gemma4/ple"] {
        let case = Case::data(name);
        let plain = decoder(&case.path, Vec::new());
        let vocab = plain.target().spec().vocab;
        for seed in 0..6 {
            let shared = Arc::new(Mutex::new(0));
            let drafting = |truths| {
                with(target(&case.path), truths, VerifyMode::Fixed, &shared).with_policy(random_widths(seed))
            };
            let what = format!("{name}, {seed}");
            check(&plain, drafting, asks(seed, vocab, true), sizes(seed), &what);
        }
    }
}

#[test]
fn requests_whose_answers_show_every_bit() {
    for case in Case::kinds() {
        let options = options(VerifyMode::Fixed);
        let hashed = || Box::new(Hashed(target(&case.path)));
        let plain = Decoder::new(hashed(), Vec::new(), options);
        let vocab = plain.target().spec().vocab;
        for seed in 0..3 {
            let shared = Arc::new(Mutex::new(0));
            let drafting =
                |truths| with(hashed(), truths, VerifyMode::Fixed, &shared).with_policy(random_widths(seed));
            let what = format!("{}, {seed}", case.name);
            check(&plain, drafting, asks(seed, vocab, false), sizes(seed), &what);
        }
    }
}

#[test]
fn the_adaptive_policy_and_shared_drafts() {
    let case = Case::tiny_llama();
    let plain = decoder(&case.path, Vec::new());
    let vocab = plain.target().spec().vocab;
    let shared = Arc::new(Mutex::new(0));
    for mode in [VerifyMode::Adaptive, VerifyMode::Tree, VerifyMode::Fixed] {
        for seed in 0..4 {
            let drafting = |truths| with(target(&case.path), truths, mode, &shared);
            let options = EngineOptions { max_batch: 6, ..sizes(seed) };
            check(&plain, drafting, asks(seed, vocab, true), options, &format!("{mode:?}, {seed}"));
        }
    }
    let shared = *shared.lock().unwrap();
    assert!(shared > 2, "{shared} sequences share a proposal at most");
}

#[test]
fn a_draft_model_shares_its_passes() {
    for (name, mode) in [
        ("llama/tied", VerifyMode::Adaptive),
        ("qwen3_5/wrapper-r2", VerifyMode::Tree),
        ("gemma4/dense", VerifyMode::Fixed),
    ] {
        let case = Case::data(name);
        let plain = decoder(&case.path, Vec::new());
        let (vocab, layers) = (plain.target().spec().vocab, plain.target().spec().layers);
        let tiny = TinyDraft { taps: vec![0, layers - 1], ..TinyDraft::default() };
        let drafting = |_| {
            let target = target(&case.path);
            let draft =
                draft_for(target.as_ref(), &tiny, DraftOptions { sink: 4, window: Some(24), quant: None });
            let options = DecoderOptions { block: draft.spec().block, ..options(mode) };
            let proposers: Vec<Box<dyn Proposer>> =
                vec![Box::new(ContextCopy::new(options.block)), Box::new(BlockDiffusion::new(draft))];
            let mut decoder = Decoder::new(target, proposers, options);
            decoder.set_costs(nearly_free(2));
            decoder
        };
        for seed in 0..4 {
            check(&plain, drafting, asks(seed, vocab, true), sizes(seed), &format!("{name}, {seed}"));
        }
    }
}

#[test]
fn a_long_prompt_goes_in_parts_beside_what_decodes() {
    let case = Case::tiny_llama();
    let options = EngineOptions { max_batch: 2, waiting: 0, step_rows: Some(4), prefix: None };
    let engine = EngineHandle::start(decoder(&case.path, Vec::new()), options);
    let (parts, held) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let (engine_too, parts_too, held_too) = (engine.clone(), Arc::clone(&parts), Arc::clone(&held));
    let short = engine.submit_to(
        Request::new(vec![1], 80),
        Box::new(move |event| {
            let mut held = held_too.lock().unwrap();
            if matches!(event, Event::Tokens(_)) && held.is_none() {
                let parts = Arc::clone(&parts_too);
                let sink = Box::new(move |event| {
                    if let Event::PrefillProgress { done, .. } = event {
                        parts.lock().unwrap().push(done);
                    }
                    true
                });
                *held = Some(engine_too.submit_to(Request::new(prompt(200, 97, 1), 1), sink).unwrap());
            }
            true
        }),
    );
    while engine.load().active + engine.load().waiting > 0 {
        std::thread::yield_now();
    }
    drop(short);
    assert_eq!(*parts.lock().unwrap(), (4..=200).step_by(4).collect::<Vec<_>>());
}
