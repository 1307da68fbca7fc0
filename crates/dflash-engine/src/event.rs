use std::collections::BTreeMap;

use serde::Serialize;

use crate::{EngineError, Lookup, PolicyStats, TokenLogprobs};

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop id or the guard.
    Stop,
    /// `max_tokens` or the context of the model.
    Length,
}

/// One propose-verify-commit cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Proposer of the drafted ids; `None` for a plain step.
    pub proposer: Option<&'static str>,
    /// Rows verified, the staged token's included.
    pub width: usize,
    /// Drafted positions among them: one less than the rows of a chain.
    pub depth: usize,
    /// Drafted ids that equalled the target's choices.
    pub accepted: usize,
    /// Ids delivered.
    pub committed: usize,
}

/// Seconds of the phases of all cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Asking the proposers.
    pub draft_s: f64,
    /// Passes of the target with their choices.
    pub verify_s: f64,
    /// Keeping the accepted rows of the caches and dropping the others.
    pub rollback_s: f64,
    /// Showing the committed rows to the proposers.
    pub observe_s: f64,
}

impl Phases {
    pub(crate) fn add(&mut self, other: Self) {
        self.draft_s += other.draft_s;
        self.verify_s += other.verify_s;
        self.rollback_s += other.rollback_s;
        self.observe_s += other.observe_s;
    }
}

/// Drafted ids at one position of their block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PositionCount {
    /// Verified, whatever became of those before.
    pub verified: usize,
    /// Accepted, with all before them.
    pub accepted: usize,
}

/// What a request took, counted in delivered ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that were not prefilled, as their state was kept.
    pub cached_tokens: usize,
    /// What came of looking the prompt up; `None` where nothing is kept.
    pub prefix: Option<Lookup>,
    /// Ids delivered.
    pub completion_tokens: usize,
    /// Seconds from start to the first id's choice.
    pub prefill_s: f64,
    /// Seconds from the first id to the last.
    pub decode_s: f64,
    /// Target passes after prefill.
    pub cycles: usize,
    /// Drafted ids that were verified.
    pub drafted: usize,
    /// Drafted ids that were accepted.
    pub accepted: usize,
    /// Cycles by rows verified.
    pub cycles_by_width: BTreeMap<usize, usize>,
    /// Cycles by proposer.
    pub cycles_by_proposer: BTreeMap<&'static str, usize>,
    /// Drafted ids by their position, the first one after the staged token's.
    pub accepted_by_position: Vec<PositionCount>,
    /// Where the time of the cycles went.
    pub phases: Phases,
    /// What the width policy did.
    pub policy: PolicyStats,
}

impl Stats {
    /// Ids after the first one, per second after prefill.
    pub fn decode_tokens_per_second(&self) -> f64 {
        ratio(self.completion_tokens.saturating_sub(1) as f64, self.decode_s)
    }

    /// Delivered ids per cycle, the one from prefill included.
    pub fn tokens_per_cycle(&self) -> f64 {
        ratio(self.completion_tokens as f64, self.cycles as f64)
    }

    /// Accepted drafted ids over delivered ids, as the reference defines it.
    pub fn acceptance_ratio(&self) -> f64 {
        ratio(self.accepted as f64, self.completion_tokens as f64)
    }

    /// Accepted over verified drafted ids.
    pub fn acceptance_per_drafted(&self) -> f64 {
        ratio(self.accepted as f64, self.drafted as f64)
    }

    pub(crate) fn count(&mut self, cycle: &Cycle) {
        self.cycles += 1;
        self.drafted += cycle.width - 1;
        self.accepted += cycle.accepted;
        *self.cycles_by_width.entry(cycle.width).or_default() += 1;
        *self.cycles_by_proposer.entry(cycle.proposer.unwrap_or("none")).or_default() += 1;
        let positions = self.accepted_by_position.len().max(cycle.depth);
        self.accepted_by_position.resize(positions, PositionCount::default());
        for (position, count) in self.accepted_by_position[..cycle.depth].iter_mut().enumerate() {
            count.verified += 1;
            count.accepted += usize::from(position < cycle.accepted);
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// What a request tells its consumer, in order; the last one is `Finished` or `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request left the queue.
    Admitted {
        /// Seconds that it waited.
        queued_s: f64,
    },
    /// Prompt ids that went through the target so far.
    PrefillProgress {
        /// Done.
        done: usize,
        /// Ids of the prompt.
        total: usize,
    },
    /// Log-probabilities of the ids in the `Tokens` that come next, where the request asks for them.
    Logprobs(Vec<TokenLogprobs>),
    /// Ids committed together.
    Tokens(Vec<u32>),
    /// A cycle ended; its ids went out before.
    Cycle(Cycle),
    /// The answer is complete.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What it took.
        stats: Stats,
    },
    /// The request failed; ids delivered before stay valid.
    Failed(EngineError),
}
