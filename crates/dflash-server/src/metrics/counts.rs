use std::collections::BTreeMap;

use dflash_engine::{Cycle, Phases, PolicyStats, PositionCount, Stats};
use serde::Serialize;

use super::histogram::{BETWEEN, Histogram, SECONDS, TOKENS};

/// Everything that is counted, in one place: text, JSON and tables are made of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    /// Answers by API and by how they ended; every choice of a request is one.
    pub requests: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Panics that cost a request.
    pub panics: u64,
    /// Prompt ids that the target read.
    pub prompt_tokens: u64,
    /// Those of complete answers that it did not read again, as their state was kept.
    pub cached_tokens: u64,
    /// Ids delivered.
    pub generated_tokens: u64,
    /// Drafted ids that were verified.
    pub drafted_tokens: u64,
    /// Drafted ids that were accepted.
    pub accepted_tokens: u64,
    /// Target passes after prefill, by proposer and rows verified.
    pub cycles: BTreeMap<&'static str, BTreeMap<usize, u64>>,
    /// Drafted ids by their position, the first one after the staged token's.
    pub by_position: Vec<PositionCount>,
    /// Seconds of prefill of all complete answers.
    pub prefill_s: f64,
    /// Seconds from the first id to the last of all complete answers.
    pub decode_s: f64,
    /// Ids of all complete answers.
    pub complete_tokens: u64,
    /// Of all complete answers.
    pub phases: Phases,
    /// Of all complete answers.
    pub policy: PolicyStats,
    /// Seconds from arrival to the first id.
    pub ttft: Histogram,
    /// Seconds between deliveries, shared by the ids delivered.
    pub between: Histogram,
    /// Seconds in the queue.
    pub queue: Histogram,
    /// Seconds of prefill.
    pub prefill: Histogram,
    /// Seconds from arrival to the end.
    pub whole: Histogram,
    /// Ids of prompts.
    pub prompts: Histogram,
    /// Ids of answers.
    pub answers: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            refused: BTreeMap::new(),
            panics: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            generated_tokens: 0,
            drafted_tokens: 0,
            accepted_tokens: 0,
            cycles: BTreeMap::new(),
            by_position: Vec::new(),
            prefill_s: 0.0,
            decode_s: 0.0,
            complete_tokens: 0,
            phases: Phases::default(),
            policy: PolicyStats::default(),
            ttft: Histogram::new(SECONDS),
            between: Histogram::new(BETWEEN),
            queue: Histogram::new(SECONDS),
            prefill: Histogram::new(SECONDS),
            whole: Histogram::new(SECONDS),
            prompts: Histogram::new(TOKENS),
            answers: Histogram::new(TOKENS),
        }
    }
}

impl Counts {
    /// A cycle ended.
    pub fn cycle(&mut self, cycle: &Cycle) {
        let proposer = cycle.proposer.unwrap_or("none");
        *self.cycles.entry(proposer).or_default().entry(cycle.width).or_default() += 1;
        self.drafted_tokens += cycle.width as u64 - 1;
        self.accepted_tokens += cycle.accepted as u64;
        let positions = self.by_position.len().max(cycle.depth);
        self.by_position.resize(positions, PositionCount::default());
        for (position, count) in self.by_position[..cycle.depth].iter_mut().enumerate() {
            count.verified += 1;
            count.accepted += usize::from(position < cycle.accepted);
        }
    }

    /// An answer is complete.
    pub fn complete(&mut self, stats: &Stats) {
        self.cached_tokens += stats.cached_tokens as u64;
        self.prefill_s += stats.prefill_s;
        self.decode_s += stats.decode_s;
        self.complete_tokens += stats.completion_tokens as u64;
        self.prefill.observe(stats.prefill_s, 1);
        let (phases, more) = (&mut self.phases, stats.phases);
        phases.draft_s += more.draft_s;
        phases.verify_s += more.verify_s;
        phases.rollback_s += more.rollback_s;
        phases.observe_s += more.observe_s;
        let (policy, more) = (&mut self.policy, stats.policy);
        policy.gained_s += more.gained_s;
        policy.probes += more.probes;
        policy.dropped_blocks += more.dropped_blocks;
        policy.plain_without_offer += more.plain_without_offer;
        policy.plain_unpromising += more.plain_unpromising;
        policy.plain_at_loss_limit += more.plain_at_loss_limit;
        policy.plain_to_measure += more.plain_to_measure;
    }

    /// An answer is over, complete or not, after so many seconds.
    pub fn ended(&mut self, api: &'static str, outcome: &'static str, generated: u64, seconds: f64) {
        *self.requests.entry(api).or_default().entry(outcome).or_default() += 1;
        self.answers.observe(generated as f64, 1);
        self.whole.observe(seconds, 1);
    }

    /// Answers that ended, in any way.
    pub fn answered(&self) -> u64 {
        self.requests.values().flat_map(BTreeMap::values).sum()
    }

    /// Answers that ended this way.
    pub fn with_outcome(&self, outcome: &str) -> u64 {
        self.requests.values().filter_map(|outcomes| outcomes.get(outcome)).sum()
    }

    /// Target passes after prefill.
    pub fn passes(&self) -> u64 {
        self.cycles.values().flat_map(BTreeMap::values).sum()
    }

    /// Ids delivered per target pass; 0 before the first.
    pub fn tokens_per_cycle(&self) -> f64 {
        ratio(self.generated_tokens as f64, self.passes() as f64)
    }

    /// Accepted drafted ids over delivered ids; 0 before the first.
    pub fn acceptance_ratio(&self) -> f64 {
        ratio(self.accepted_tokens as f64, self.generated_tokens as f64)
    }

    /// Ids per second of decoding, over all complete answers; 0 before the first.
    pub fn decode_tokens_per_second(&self) -> f64 {
        ratio(self.complete_tokens as f64, self.decode_s)
    }
}

/// How much one is of the other; 0 of nothing.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
