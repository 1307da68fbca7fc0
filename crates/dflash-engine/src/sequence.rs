use dflash_tensor::SeqCache;

use crate::event::Stats;
use crate::{FinishReason, ProposerState, SamplingParams, TokenGuard, WidthPolicy};

/// One request in decoding: plain data.
///
/// Invariant between cycles: `cache.len() == ids.len() - 1`. The last id is the staged token, committed but
/// not yet in the cache.
pub(crate) struct Sequence {
    /// Prompt and committed ids.
    pub ids: Vec<u32>,
    /// Ids of the prompt.
    pub prompt: usize,
    /// Ids that may be delivered, the model's context considered.
    pub budget: usize,
    /// Ids that end the answer.
    pub stop_ids: Vec<u32>,
    /// Other ends.
    pub guard: Option<Box<dyn TokenGuard>>,
    /// How ids are chosen.
    pub sampling: SamplingParams,
    /// Number of the answer, for its noise.
    pub choice: u32,
    /// Alternatives to tell of every id; `None` tells nothing.
    pub logprobs: Option<usize>,
    /// The target's state.
    pub cache: SeqCache,
    /// One state per proposer in use.
    pub proposers: Vec<ProposerState>,
    /// Whether any of them looks at the target's layers.
    pub tapped: bool,
    /// Picks proposer and width.
    pub policy: Box<dyn WidthPolicy>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// Counts so far.
    pub stats: Stats,
}

impl Sequence {
    /// Ids delivered.
    pub fn delivered(&self) -> usize {
        self.stats.completion_tokens
    }

    /// Ids that may still be delivered.
    pub fn remaining(&self) -> usize {
        self.budget - self.delivered()
    }

    /// Whether the highest logit is chosen and nothing told of it, for the next id.
    pub fn takes_highest(&mut self) -> bool {
        let masked = self.guard.as_mut().is_some_and(|guard| guard.allowed().is_some());
        self.sampling.is_plain() && self.logprobs.is_none() && !masked
    }

    /// The staged token.
    pub fn staged(&self) -> u32 {
        *self.ids.last().expect("a sequence has ids")
    }
}
