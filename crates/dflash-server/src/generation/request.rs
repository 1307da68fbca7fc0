use dflash_engine::{Decoding, SamplingParams};
use dflash_grammar::Constraint;

use super::AnswerFormat;

/// A request in neutral terms; only validation makes one.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Ids to continue.
    pub prompt: Vec<u32>,
    /// Where other prompts may go on otherwise, ascending.
    pub boundaries: Vec<usize>,
    /// Whether it goes on from what is kept of other prompts, and is kept for others.
    pub shares: bool,
    /// Ids per answer at most.
    pub max_tokens: usize,
    /// How ids are chosen.
    pub sampling: SamplingParams,
    /// Answers to this one prompt.
    pub answers: u32,
    /// Tells log-probabilities, with so many alternatives to every id.
    pub logprobs: Option<usize>,
    /// Speculative or plain; the ids are the same.
    pub decoding: Decoding,
    /// How the ids of an answer are read.
    pub format: AnswerFormat,
    /// What the answer must be.
    pub constraint: Option<Constraint>,
    /// Ids of reasoning after which the block is closed.
    pub thinking_budget: Option<usize>,
}

impl Generation {
    /// The seed, where the ids depend on it.
    pub fn seed(&self) -> Option<u64> {
        (!self.sampling.is_greedy()).then_some(self.sampling.seed)
    }
}
