use dflash_engine::{Lookup, Stats};
use serde_json::{Value, json};

use super::counts::ratio;
use super::progress::Progress;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A stop id or a stop string.
    Stop,
    /// `max_tokens` or the context of the model.
    Length,
    /// The engine failed.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
}

impl Outcome {
    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Failed => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An answer that is over.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How far it came.
    pub progress: Progress,
    /// How it ended.
    pub outcome: Outcome,
    /// What failed.
    pub error: Option<String>,
    /// What it took, where it is complete.
    pub stats: Option<Stats>,
    /// Seconds from the submission to the end.
    pub wall_s: f64,
}

impl Ended {
    /// An answer that ends now.
    pub fn new(progress: Progress, outcome: Outcome, error: Option<String>, stats: Option<Stats>) -> Self {
        Self { wall_s: progress.elapsed_s(), progress, outcome, error, stats }
    }

    /// Ids after the first per second: by the engine's clock where it is complete.
    pub fn tokens_per_second(&self) -> f64 {
        match &self.stats {
            Some(stats) => stats.decode_tokens_per_second(),
            None => self.progress.tokens_per_second(),
        }
    }

    /// `last_request`.
    pub fn record(&self) -> Value {
        let mut record = self.progress.figures();
        record["finish_reason"] = self.outcome.name().into();
        record["wall_s"] = self.wall_s.into();
        record["error"] = self.error.clone().into();
        record["prefill_tokens_restored"] = 0.into();
        record["prefill_tok_s_restored"] = Value::Null;
        let prompt = self.progress.prefill.0;
        record["prefill_tokens_physical"] = prompt.into();
        record["prefill_tokens_computed"] = prompt.into();
        record["prefill_tok_s_physical"] = Value::Null;
        record["prefill_tok_s_apparent"] = Value::Null;
        record["adaptive_metrics"] = Value::Null;
        if let Some(stats) = &self.stats {
            self.complete(&mut record, stats);
        }
        record
    }

    fn complete(&self, record: &mut Value, stats: &Stats) {
        let (prompt, cached) = (stats.prompt_tokens, stats.cached_tokens);
        let read = prompt - cached;
        record["cache_hit_tokens"] = cached.into();
        record["cache_status"] = if cached > 0 { "HIT" } else { "COLD" }.into();
        record["cache_found"] = stats.prefix.map(|lookup| lookup.found.name()).into();
        record["cache_tier"] = stats.prefix.map(Lookup::place).into();
        record["prefill_tokens_restored"] = cached.into();
        record["prefill_tokens_physical"] = read.into();
        record["prefill_tokens_computed"] = read.into();
        record["prefill_s"] = stats.prefill_s.into();
        record["prefill_tok_s_physical"] = ratio(read as f64, stats.prefill_s).into();
        record["prefill_tok_s_apparent"] = ratio(prompt as f64, stats.prefill_s).into();
        record["decode_s"] = stats.decode_s.into();
        record["decode_tok_s"] = stats.decode_tokens_per_second().into();
        record["adaptive_block_reductions"] = stats.policy.dropped_blocks.into();
        record["adaptive_metrics"] = json!(stats.policy);
        record["accepted_by_position"] = json!(stats.accepted_by_position);
        record["phase_timings_us"] = json!({
            "prefill": micros(stats.prefill_s),
            "draft": micros(stats.phases.draft_s),
            "verify": micros(stats.phases.verify_s),
            "replay": micros(stats.phases.rollback_s),
            "commit": micros(stats.phases.observe_s),
        });
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
