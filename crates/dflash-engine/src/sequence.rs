use std::sync::Arc;
use std::sync::mpsc::Receiver;

use dflash_tensor::SeqCache;

use crate::block::{Block, Part};
use crate::event::Stats;
use crate::faults::guarded;
use crate::laps::Lap;
use crate::prefix::Snapshot;
use crate::sampling::Sampler;
use crate::{EngineError, FinishReason, ProposerState, SamplingParams, TokenGuard, WidthPolicy};

/// A state that is to come.
pub(crate) enum Awaited {
    /// Of so many ids of the prompt, which another sequence is about to read.
    Prefill(usize),
    /// From a slower tier.
    Tier(Receiver<Option<Arc<Snapshot>>>),
}

/// One request in decoding: plain data.
///
/// Invariant between steps, once the prompt is done: `cache.len() == ids.len() - 1`. The last id is the staged token,
/// committed but not yet in the cache.
pub(crate) struct Sequence {
    /// Prompt and committed ids.
    pub ids: Vec<u32>,
    /// Ids of the prompt.
    pub prompt: usize,
    /// Ids that may be delivered, the model's context considered.
    pub budget: usize,
    /// Ids that end the answer.
    pub stop_ids: Vec<u32>,
    /// Other ends, and which ids may come.
    pub guard: Option<Box<dyn TokenGuard>>,
    /// How ids are chosen.
    pub sampling: SamplingParams,
    /// Number of the answer, for its noise.
    pub choice: u32,
    /// Alternatives to tell of every id; `None` tells nothing.
    pub logprobs: Option<usize>,
    /// Scratch of its choices.
    pub sampler: Sampler,
    /// The target's state.
    pub cache: SeqCache,
    /// One state per proposer in use.
    pub proposers: Vec<ProposerState>,
    /// Of these, whether it was given up: it has missed something and is not asked any more.
    pub asleep: Vec<bool>,
    /// Whether any of them looks at the target's layers.
    pub tapped: bool,
    /// Picks proposer and width.
    pub policy: Box<dyn WidthPolicy>,
    /// Whether others may go on from its last state.
    pub kept: bool,
    /// Lengths at which its state is to be kept, ascending.
    pub cuts: Vec<usize>,
    /// The state that it waits for before its prompt is read.
    pub awaits: Option<Awaited>,
    /// Its rows in the step.
    pub part: Part,
    /// What is drafted in the step.
    pub block: Block,
    /// Since it was admitted, then since its first id was chosen.
    pub lap: Lap,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// Why it cannot go on.
    pub failed: Option<EngineError>,
    /// Whether nobody listens any more.
    pub gone: bool,
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

    /// Whether nothing is left to do for it.
    pub fn is_over(&self) -> bool {
        self.finish.is_some() || self.failed.is_some() || self.gone
    }

    /// Whether its prompt is not done yet.
    pub fn is_prompt(&self) -> bool {
        self.cache.len() < self.prompt
    }

    /// Rows of its prompt that come next, `most` at most: they end where its state is to be kept.
    pub fn next_rows(&self, most: usize) -> usize {
        let len = self.cache.len();
        if self.awaits.is_some() { 0 } else { most.min(self.stop(len + 1) - len) }
    }

    /// Rows of its prompt that come before its proposers draft or are kept.
    pub fn upcoming(&self) -> usize {
        self.stop(self.cache.len()).saturating_sub(self.cache.len())
    }

    /// Where its state is to be kept next, from a length on, or the end of its prompt.
    fn stop(&self, from: usize) -> usize {
        self.cuts
            .iter()
            .copied()
            .find(|&cut| self.kept && cut >= from)
            .unwrap_or(self.prompt)
            .min(self.prompt)
    }

    /// Asks for the state at a length to be kept.
    pub fn cut(&mut self, at: usize) {
        if let Err(place) = self.cuts.binary_search(&at) {
            self.cuts.insert(place, at);
        }
    }

    /// Whether it decodes in this step.
    pub fn decodes(&self) -> bool {
        self.part == Part::Block && !self.is_over()
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        match self.part {
            _ if self.is_over() => 0,
            Part::Idle => 0,
            Part::Prompt(rows) => rows,
            Part::Block => self.block.rows(),
        }
    }

    /// Rows of the batch, from the first of its span on, that an id is chosen at: none in the middle of a prompt, one at
    /// its end.
    pub fn chosen(&self) -> std::ops::Range<usize> {
        let first = self.block.first_row;
        match self.part {
            Part::Prompt(rows) if self.cache.len() + rows == self.prompt && self.budget > 0 => {
                first + rows - 1..first + rows
            }
            Part::Idle | Part::Prompt(_) => first..first,
            Part::Block => first..first + self.block.rows(),
        }
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

    /// What it took, once it is finished.
    pub fn end(&mut self) -> Stats {
        self.stats.decode_s = self.lap.end();
        self.stats.policy = self.policy.finish();
        std::mem::take(&mut self.stats)
    }

    /// Its own part of a step, whose failure, a panic too, is its own alone.
    pub fn own(&mut self, part: impl FnOnce(&mut Self) -> Result<(), EngineError>) {
        if self.is_over() {
            return;
        }
        if let Err(error) = guarded(|| part(self)).unwrap_or_else(Err) {
            self.failed = Some(error);
        }
    }
}
