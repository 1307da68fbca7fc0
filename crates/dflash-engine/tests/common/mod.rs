//! Tiny targets, decoded every way there is.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod cases;
pub mod faulty;
pub mod hashed;
pub mod lots;
pub mod model;
pub mod naive;
pub mod sampled;
pub mod truth;

use std::path::Path;
use std::sync::Arc;

use dflash_cpu::{CpuBackend, Isa};
use dflash_engine::{
    Curve, Decoder, DecoderOptions, Decoding, Event, FinishReason, Proposer, Request, Stats, StepCosts,
    TokenLogprobs, VerifyMode, WidthPolicy,
};
use dflash_models::{Target, load_target};
use dflash_testkit::{RandomWidths, Rng, Script, Scripted, TinyLlama};

/// Rows of a block in these tests.
pub const BLOCK: usize = 16;

pub fn tiny_llama(model: &TinyLlama) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    model.write(dir.path());
    dir
}

pub fn target(path: &Path) -> Box<dyn Target> {
    target_on(path, 2, Isa::detect())
}

pub fn target_on(path: &Path, threads: usize, isa: Isa) -> Box<dyn Target> {
    let backend = Arc::new(CpuBackend::new(threads, isa));
    load_target(path, backend, &mut |_, _| {}).expect("a sound checkpoint").target
}

pub fn options(mode: VerifyMode) -> DecoderOptions {
    DecoderOptions { prefill_chunk: 2048, block: BLOCK, verify_cap: 0, mode }
}

pub fn decoder(path: &Path, proposers: Vec<Box<dyn Proposer>>) -> Decoder {
    Decoder::new(target(path), proposers, options(VerifyMode::Fixed))
}

pub fn scripted(truth: &[u32], script: Script, vocab: usize, seed: u64) -> Box<dyn Proposer> {
    let vocab = u32::try_from(vocab).expect("a small vocabulary");
    Box::new(Scripted { truth: truth.to_vec(), script, vocab, block: BLOCK, seed })
}

pub fn random_widths(seed: u64) -> impl Fn(&Decoder) -> Box<dyn WidthPolicy> + Send + Sync + 'static {
    move |_| Box::new(RandomWidths(Rng::new(seed)))
}

/// Rows cost next to nothing, drafts less: whatever is drafted is verified.
pub fn nearly_free(proposers: usize) -> StepCosts {
    let flat = |seconds| Curve::new(vec![(1, seconds), (64, 1.000_001 * seconds)]);
    StepCosts { verify: flat(1e-9), propose: vec![Some(flat(1e-15)); proposers] }
}

/// What a request delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub ids: Vec<u32>,
    /// Of every id, where they were asked for.
    pub logprobs: Vec<TokenLogprobs>,
    pub reason: FinishReason,
    pub stats: Stats,
}

pub fn answer(decoder: &Decoder, request: Request) -> Answer {
    let (mut ids, mut logprobs) = (Vec::new(), Vec::new());
    let mut finished = None;
    decoder
        .decode(request, &mut |event| {
            assert!(finished.is_none(), "nothing comes after the end");
            match event {
                Event::Logprobs(new) => {
                    assert_eq!(logprobs.len(), ids.len(), "they come just before their ids");
                    logprobs.extend(new);
                }
                Event::Tokens(new) => ids.extend(new),
                Event::Finished { reason, stats } => finished = Some((reason, stats)),
                _ => {}
            }
            true
        })
        .expect("a request that can be decoded");
    let (reason, stats) = finished.expect("a request ends");
    assert_eq!(stats.completion_tokens, ids.len(), "counters count delivered ids");
    assert!(logprobs.is_empty() || logprobs.len() == ids.len(), "one for every id");
    Answer { ids, logprobs, reason, stats }
}

pub fn speculative(decoder: &Decoder, prompt: &[u32], max_tokens: usize) -> Answer {
    answer(decoder, Request::new(prompt.to_vec(), max_tokens))
}

pub fn plain(decoder: &Decoder, prompt: &[u32], max_tokens: usize) -> Answer {
    let request = Request { decoding: Decoding::Plain, ..Request::new(prompt.to_vec(), max_tokens) };
    let answer = answer(decoder, request);
    assert_eq!(answer.stats.cycles_by_width.keys().copied().max().unwrap_or(1), 1);
    answer
}

pub fn prompt(len: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.below(vocab as u32)).collect()
}
