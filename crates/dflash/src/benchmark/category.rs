use std::collections::BTreeMap;

use dflash_engine::Stats;
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
    /// Seconds of plain decoding minus those with the draft: time lost, where negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gained_s: Option<f64>,
    /// `ngram_tok_s` over `plain_tok_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ngram_speedup: Option<f64>,
    /// Delivered ids per cycle, with the draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_cycle: Option<f64>,
    /// Accepted drafted ids over delivered ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_ratio: Option<f64>,
    /// Cycles with the draft by rows verified, one answer a prompt.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cycles_by_width: BTreeMap<usize, usize>,
    /// The same by proposer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cycles_by_proposer: BTreeMap<&'static str, usize>,
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
        let sum = |count: fn(&Stats) -> usize| -> f64 {
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
            gained_s: prompts.iter().map(|prompt| gained(prompt)).sum(),
            ngram_speedup: over_plain(Leg::Ngram),
            tokens_per_cycle: ratio(ids, cycles),
            acceptance_ratio: ratio(sum(|stats| stats.accepted), ids),
            cycles_by_width: counts(prompts, |stats| &stats.cycles_by_width),
            cycles_by_proposer: counts(prompts, |stats| &stats.cycles_by_proposer),
            ceiling: (!drafted.is_empty()).then(best),
            identical: identical(prompts),
        }
    }
}

/// Seconds that the draft saves.
fn gained(prompt: &Answered<'_>) -> Option<f64> {
    Some(prompt.decoding(Leg::Plain)?.1 - prompt.decoding(Leg::Dflash)?.1)
}

/// Counts of the first answers with the draft, together.
fn counts<K: Copy + Ord>(
    prompts: &[&Answered<'_>],
    of: fn(&Stats) -> &BTreeMap<K, usize>,
) -> BTreeMap<K, usize> {
    let mut all = BTreeMap::new();
    for decoded in prompts.iter().filter_map(|prompt| prompt.first(Leg::Dflash)) {
        of(&decoded.stats).iter().for_each(|(&key, count)| *all.entry(key).or_default() += count);
    }
    all
}

/// `None` as soon as one prompt has nothing to compare.
fn identical(prompts: &[&Answered<'_>]) -> Option<bool> {
    let verdicts: Option<Vec<bool>> = prompts.iter().map(|prompt| prompt.identical()).collect();
    verdicts.map(|verdicts| verdicts.into_iter().all(|identical| identical))
}

#[cfg(test)]
mod tests {
    use dflash_engine::Curve;

    use super::super::answered::by_hand::{question, trial};
    use super::*;

    #[test]
    fn all_ids_over_all_seconds() {
        let (first, second) = (question("a", "c"), question("b", "c"));
        let (long, short) = ((0..9).collect::<Vec<u32>>(), vec![1, 2, 3]);
        let slow = Answered {
            question: &first,
            trials: vec![
                trial(Leg::Plain, &long, 8.0, 8, 0),
                trial(Leg::Dflash, &long, 8.0, 6, 2),
                trial(Leg::Ngram, &long, 4.0, 6, 2),
            ],
        };
        let fast = Answered {
            question: &second,
            trials: vec![
                trial(Leg::Plain, &short, 2.0, 2, 0),
                trial(Leg::Dflash, &short, 0.5, 2, 2),
                trial(Leg::Ngram, &short, 1.0, 2, 0),
            ],
        };
        let verify = Curve::new(vec![(1, 1.0), (2, 1.2)]);
        let ceiling = Ceiling { verify: &verify, draft: None, width: 2 };
        let category = Category::of(&[&slow, &fast], &ceiling, None);
        let expected = Category {
            prompts: 2,
            plain_tok_s: Some(1.0),
            dflash_tok_s: Some(10.0 / 8.5),
            ngram_tok_s: Some(2.0),
            speedup: Some(10.0 / 8.5),
            speedup_min: Some(1.0),
            speedup_max: Some(4.0),
            gained_s: Some(1.5),
            ngram_speedup: Some(2.0),
            tokens_per_cycle: Some(12.0 / 8.0),
            acceptance_ratio: Some(4.0 / 12.0),
            cycles_by_width: [(1, 4), (2, 4)].into(),
            cycles_by_proposer: [("draft", 4), ("none", 4)].into(),
            // Half of the first drafted ids were accepted.
            ceiling: Some(1.5 / 1.2),
            identical: Some(true),
        };
        assert_eq!(category, expected);
        let oracle = Category::of(&[&slow, &fast], &ceiling, Some(0.8));
        assert_eq!(oracle, Category { ceiling: Some(1.8 / 1.2), ..expected });
    }

    #[test]
    fn one_other_id_in_one_prompt_is_a_difference() {
        let (first, second) = (question("a", "c"), question("b", "c"));
        let pair = |question, other: u32| Answered {
            question,
            trials: vec![trial(Leg::Plain, &[1, 2], 1.0, 1, 0), trial(Leg::Dflash, &[1, other], 1.0, 1, 0)],
        };
        let verify = Curve::new(vec![(1, 1.0)]);
        let ceiling = Ceiling { verify: &verify, draft: None, width: 1 };
        let verdict = |other| {
            let prompts = [pair(&first, 2), pair(&second, other)];
            Category::of(&[&prompts[0], &prompts[1]], &ceiling, None).identical
        };
        assert_eq!([verdict(2), verdict(3)], [Some(true), Some(false)]);
    }
}
