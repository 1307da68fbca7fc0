use std::collections::BTreeMap;

use serde::Serialize;

use super::answered::Answered;
use super::leg::Leg;
use super::repetition::{degenerate, repeated_span};
use super::spread::Spread;
use crate::check::first_difference;

/// One prompt.
#[derive(Debug, Clone, Serialize)]
pub struct PromptReport {
    /// Its name.
    pub id: String,
    /// Its category.
    pub category: String,
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Ids of the answer.
    pub completion_tokens: usize,
    /// Whether every answer has the same ids.
    pub identical: Option<bool>,
    /// Index of the first id in which an answer differs from the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<usize>,
    /// Ids of the longest stretch of one span said three times or more.
    pub repeated_span: usize,
    /// Whether that is more than half of the answer.
    pub degenerate: bool,
    /// Speed with the draft over plain decoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// By leg.
    pub legs: BTreeMap<Leg, LegReport>,
}

/// One prompt by one leg: medians over the repetitions.
#[derive(Debug, Clone, Serialize)]
pub struct LegReport {
    /// SHA-256 of the ids as little-endian 32-bit numbers.
    pub ids_sha256: String,
    /// Milliseconds to the first id.
    pub ttft_ms: f64,
    /// Ids of the prompt per second.
    pub prefill_tok_s: f64,
    /// Ids after the first per second.
    pub decode_tok_s: Spread,
    /// Ids per cycle.
    pub tokens_per_cycle: f64,
    /// Accepted drafted ids over delivered ids.
    pub acceptance_ratio: f64,
    /// Target passes after prefill.
    pub cycles: usize,
    /// Cycles by rows verified.
    pub cycles_by_width: BTreeMap<usize, usize>,
    /// Cycles by proposer.
    pub cycles_by_proposer: BTreeMap<&'static str, usize>,
}

impl PromptReport {
    /// Of one prompt.
    pub fn of(prompt: &Answered<'_>, legs: &[Leg]) -> Self {
        let first = prompt.trials.first().map_or(&[][..], |trial| &trial.decoded.ids);
        let difference = prompt.trials.iter().find_map(|trial| first_difference(first, &trial.decoded.ids));
        let reports = legs.iter().filter_map(|&leg| Some((leg, LegReport::of(prompt, leg)?)));
        Self {
            id: prompt.question.prompt.id.clone(),
            category: prompt.question.prompt.category.clone(),
            prompt_tokens: prompt.question.ids.len(),
            completion_tokens: first.len(),
            identical: prompt.identical(),
            first_difference: difference,
            repeated_span: repeated_span(first),
            degenerate: degenerate(first),
            speedup: prompt.speedup(Leg::Dflash),
            legs: reports.collect(),
        }
    }
}

impl LegReport {
    fn of(prompt: &Answered<'_>, leg: Leg) -> Option<Self> {
        let first = prompt.first(leg)?;
        let median = |number: fn(&super::trial::Decoded) -> f64| Spread::of(prompt.of(leg).map(number));
        Some(Self {
            ids_sha256: first.ids_sha256.clone(),
            ttft_ms: 1e3 * median(|decoded| decoded.ttft_s)?.median,
            prefill_tok_s: median(|decoded| decoded.prefill_tok_s)?.median,
            decode_tok_s: median(|decoded| decoded.decode_tok_s)?,
            tokens_per_cycle: first.tokens_per_cycle,
            acceptance_ratio: first.acceptance_ratio,
            cycles: first.stats.cycles,
            cycles_by_width: first.stats.cycles_by_width.clone(),
            cycles_by_proposer: first.stats.cycles_by_proposer.clone(),
        })
    }
}
