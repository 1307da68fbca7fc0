//! Requests that sample, with their answers by plain decoding.

use std::collections::BTreeMap;

use dflash_engine::proposer::ContextCopy;
use dflash_engine::{Decoder, Decoding, Proposer, Request, Sampling, SamplingParams, VerifyMode};
use dflash_models::Target;
use dflash_testkit::Script;

use super::cases::Case;
use super::{Answer, BLOCK, answer, options, prompt, scripted, target};

/// Parameters of every kind.
pub fn samplings() -> Vec<Sampling> {
    let warm = Sampling { temperature: 1.0, seed: 7, ..Sampling::default() };
    let bias = BTreeMap::from([(1, 1.5), (5, -100.0), (20, 0.7)]);
    vec![
        warm.clone(),
        Sampling { temperature: 0.6, top_k: 12, top_p: 0.9, min_p: 0.05, seed: u64::MAX, ..warm.clone() },
        Sampling {
            repetition_penalty: 1.3,
            presence_penalty: 0.4,
            frequency_penalty: 0.3,
            ..Sampling::default()
        },
        Sampling {
            logit_bias: bias.clone(),
            repetition_penalty: 1.5,
            frequency_penalty: 0.2,
            ..Sampling::default()
        },
        Sampling { logit_bias: bias, presence_penalty: 2.0, frequency_penalty: -0.5, ..warm },
    ]
}

/// A request with the answer of plain decoding.
pub struct Sampled<'a> {
    pub case: &'a Case,
    pub vocab: usize,
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    pub answer: Answer,
}

impl<'a> Sampled<'a> {
    pub fn new(case: &'a Case, sampling: Sampling, len: usize, tokens: usize) -> Self {
        let decoder = Decoder::new(target(&case.path), Vec::new(), options(VerifyMode::Fixed));
        let vocab = decoder.target().spec().vocab;
        let prompt = prompt(len, vocab, len as u64);
        let request = Request { decoding: Decoding::Plain, ..request(&prompt, &sampling, tokens) };
        let answer = answer(&decoder, request);
        assert_eq!((answer.ids.len(), answer.logprobs.len()), (tokens, tokens), "{}", case.name);
        Self { case, vocab, prompt, sampling, answer }
    }

    pub fn target(&self) -> Box<dyn Target> {
        target(&self.case.path)
    }

    pub fn request(&self) -> Request {
        request(&self.prompt, &self.sampling, self.answer.ids.len())
    }

    pub fn scripted(&self, script: Script, seed: u64) -> Box<dyn Proposer> {
        scripted(&[&self.prompt[..], &self.answer.ids].concat(), script, self.vocab, seed)
    }

    /// A script with context copy beside, and prompts in small pieces.
    pub fn mixed(&self, script: Script, seed: u64) -> Decoder {
        let proposers = vec![self.scripted(script, seed), Box::new(ContextCopy::new(BLOCK)) as _];
        let mut options = options(VerifyMode::Fixed);
        options.prefill_chunk = 17;
        Decoder::new(self.target(), proposers, options)
    }

    /// The same ids, and the same bits of every log-probability.
    pub fn check(&self, decoder: &Decoder, what: &str) -> Answer {
        let got = answer(decoder, self.request());
        let what = format!("{}: {what}, {:?}", self.case.name, self.sampling);
        assert_eq!(got.ids, self.answer.ids, "{what}");
        assert_eq!(bits(&got), bits(&self.answer), "{what}");
        got
    }
}

/// Asks for log-probabilities too.
pub fn request(prompt: &[u32], sampling: &Sampling, tokens: usize) -> Request {
    let sampling = SamplingParams::new(sampling.clone()).expect("valid parameters");
    Request { sampling, logprobs: Some(3), ..Request::new(prompt.to_vec(), tokens) }
}

/// Ids and bits of all log-probabilities.
fn bits(answer: &Answer) -> Vec<(u32, u32)> {
    let told = answer.logprobs.iter().flat_map(|token| [token.chosen].into_iter().chain(token.top.clone()));
    told.map(|alternative| (alternative.id, alternative.logprob.to_bits())).collect()
}
