use serde::Serialize;

use super::answered::{Answered, positions, ratio, speed};
use super::ceiling::Ceiling;
use super::leg::Leg;
use super::spread::Spread;

/// Some prompts together. What was not measured is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Category {
    /// How many.
    pub prompts: usize,
    /// Ids per second of plain decoding: all ids over all seconds, which are medians of the repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_tok_s: Option<f64>,
    /// With the draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dflash_tok_s: Option<f64>,
    /// With context copy alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ngram_tok_s: Option<f64>,
    /// `dflash_tok_s` over `plain_tok_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// Of the prompt that gained least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_min: Option<f64>,
    /// Of the prompt that gained most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_max: Option<f64>,
    /// `ngram_tok_s` over `plain_tok_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ngram_speedup: Option<f64>,
    /// Delivered ids per cycle, with the draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_cycle: Option<f64>,
    /// Accepted drafted ids over delivered ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_ratio: Option<f64>,
    /// The speed-up that the best fixed width would give, see [`Ceiling::speedup`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Whether every leg gave the same ids for every prompt.
    pub identical: Option<bool>,
}

impl Category {
    /// Of these prompts. An oracle's rate stands for what was measured by position.
    pub fn of(prompts: &[&Answered<'_>], ceiling: &Ceiling<'_>, oracle: Option<f64>) -> Self {
        let speed = |leg| speed(prompts.iter().copied(), leg);
        let over_plain = |leg| ratio(speed(leg)?, speed(Leg::Plain)?);
        let each = Spread::of(prompts.iter().filter_map(|prompt| prompt.speedup(Leg::Dflash)));
        let drafted: Vec<_> = prompts.iter().flat_map(|prompt| prompt.of(Leg::Dflash)).collect();
        let sum = |count: fn(&dflash_engine::Stats) -> usize| -> f64 {
            drafted.iter().map(|decoded| count(&decoded.stats)).sum::<usize>() as f64
        };
        let (ids, cycles) = (sum(|stats| stats.completion_tokens), sum(|stats| stats.cycles));
        let best = || match oracle {
            Some(rate) => ceiling.speedup_at(rate),
            None => ceiling.speedup(&positions(prompts.iter().copied()).rates()),
        };
        Self {
            prompts: prompts.len(),
            plain_tok_s: speed(Leg::Plain),
            dflash_tok_s: speed(Leg::Dflash),
            ngram_tok_s: speed(Leg::Ngram),
            speedup: over_plain(Leg::Dflash),
            speedup_min: each.map(|each| each.min),
            speedup_max: each.map(|each| each.max),
            ngram_speedup: over_plain(Leg::Ngram),
            tokens_per_cycle: ratio(ids, cycles),
            acceptance_ratio: ratio(sum(|stats| stats.accepted), ids),
            ceiling: (!drafted.is_empty()).then(best),
            identical: identical(prompts),
        }
    }
}

/// `None` as soon as one prompt has nothing to compare.
fn identical(prompts: &[&Answered<'_>]) -> Option<bool> {
    let verdicts: Option<Vec<bool>> = prompts.iter().map(|prompt| prompt.identical()).collect();
    verdicts.map(|verdicts| verdicts.into_iter().all(|identical| identical))
}
