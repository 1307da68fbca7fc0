use std::ops::AddAssign;

use dflash_engine::Stats;
use serde::Serialize;

/// What answers took, in ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Ids of the prompt.
    pub prompt: usize,
    /// Those of them that came from a cache.
    pub cached: usize,
    /// Ids delivered, over all answers.
    pub completion: usize,
    /// Those of them inside a block of reasoning.
    pub reasoning: usize,
    /// Drafted ids that were verified.
    pub drafted: usize,
    /// Drafted ids that were accepted.
    pub accepted: usize,
    /// Target passes after prefill.
    pub cycles: usize,
}

impl Usage {
    /// Of one answer.
    pub fn of(stats: &Stats, reasoning: usize) -> Self {
        Self {
            prompt: stats.prompt_tokens,
            cached: stats.cached_tokens,
            completion: stats.completion_tokens,
            reasoning,
            drafted: stats.drafted,
            accepted: stats.accepted,
            cycles: stats.cycles,
        }
    }

    /// With the answers to another prompt.
    #[must_use]
    pub fn with_prompt(mut self, other: Self) -> Self {
        let prompt = self.prompt + other.prompt;
        let cached = self.cached + other.cached;
        self += other;
        Self { prompt, cached, ..self }
    }

    /// Ids in all.
    pub fn total(&self) -> usize {
        self.prompt + self.completion
    }

    /// Ids delivered per target pass; 0 without a pass.
    pub fn tokens_per_cycle(&self) -> f64 {
        ratio(self.completion, self.cycles)
    }

    /// Accepted drafted ids over delivered ids.
    pub fn acceptance(&self) -> f64 {
        ratio(self.accepted, self.completion)
    }
}

/// Another answer to the same prompt, which is counted once.
impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt = self.prompt.max(other.prompt);
        self.cached = self.cached.max(other.cached);
        self.completion += other.completion;
        self.reasoning += other.reasoning;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.cycles += other.cycles;
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}
