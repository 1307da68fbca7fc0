//! `dflash generate --check`: the same prompt with and without the draft, compared id by id.

use std::process::ExitCode;

use dflash_engine::Decoding;
use serde::Serialize;

use crate::generate::{Answer, AnswerReport, answer};
use crate::report::{Failure, Outcome};
use crate::request::GenerateRequest;
use crate::run::{print, to_json};
use crate::runtime::Runtime;

/// Ids of an answer from which on its speed means something.
const ENOUGH_IDS: usize = 64;

/// Where two answers part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Index of the first id that differs, counted from the first generated one.
    pub index: usize,
    /// The id with the draft; absent when that answer is shorter.
    pub speculative: Option<u32>,
    /// The id of plain decoding; absent when that answer is shorter.
    pub plain: Option<u32>,
    /// By how much the best logit leads the second best there.
    pub top2_margin: f32,
}

/// What `--check --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// The answer with the draft.
    #[serde(flatten)]
    pub speculative: AnswerReport,
    /// The answer without.
    pub plain: AnswerReport,
    /// Whether all ids are equal, and all log-probabilities where they were asked for.
    pub identical: bool,
    /// The first difference.
    pub first_difference: Option<Difference>,
    /// Speed with the draft over speed without.
    pub speedup: f64,
}

impl CheckReport {
    /// Compares two answers; on a difference `margin` tells that of the logits after the ids they share.
    pub fn compare(
        speculative: &Answer,
        plain: &Answer,
        margin: impl FnOnce(&[u32]) -> Outcome<f32>,
    ) -> Outcome<Self> {
        let difference = |index: usize| {
            Ok(Difference {
                index,
                speculative: speculative.ids.get(index).copied(),
                plain: plain.ids.get(index).copied(),
                top2_margin: margin(&plain.ids[..index])?,
            })
        };
        let first_difference = first_difference(&speculative.ids, &plain.ids).map(difference).transpose()?;
        let speed = |answer: &Answer| answer.stats.decode_tokens_per_second();
        Ok(Self {
            identical: first_difference.is_none() && speculative.logprobs == plain.logprobs,
            first_difference,
            speedup: ratio(speed(speculative), speed(plain)),
            speculative: speculative.report(),
            plain: plain.report(),
        })
    }

    /// 0 when all is equal, 1 on a difference.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.identical)
    }

    /// For people.
    pub fn text(&self) -> String {
        let verdict = match &self.first_difference {
            None if !self.identical => "DIFFERENT log-probabilities of equal ids".to_owned(),
            None => format!("identical: {} ids{}", self.plain.completion_tokens, self.same()),
            Some(at) => {
                let id = |id: Option<u32>| id.map_or("the end".to_owned(), |id| format!("id {id}"));
                format!(
                    "DIFFERENT from id {} on: {} with the draft, {} without; top-2 margin {}",
                    at.index,
                    id(at.speculative),
                    id(at.plain),
                    at.top2_margin
                )
            }
        };
        let row = |name: &str, answer: &AnswerReport| {
            format!(
                "{name:<12} sha256 {}  {:>8.1} tok/s  {:.3} tokens per cycle (with the one from prefill)  {} cycles\n",
                answer.ids_sha256, answer.decode_tok_s, answer.tokens_per_cycle, answer.cycles
            )
        };
        let with = &self.speculative;
        format!(
            "{verdict}\n{}{}acceptance   {:.1}% of the delivered ids were drafted, {:.1}% of the drafted ids accepted\n\
             speed        {:.3} x plain{}\n",
            row("speculative", with),
            row("plain", &self.plain),
            100.0 * with.acceptance_ratio,
            100.0 * with.acceptance_per_drafted,
            self.speedup,
            self.caveat(),
        )
    }

    /// What is equal besides ids, and how to have it again.
    fn same(&self) -> String {
        let logprobs = if self.plain.logprobs.is_some() { ", log-probabilities too" } else { "" };
        let seed = self.plain.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
        format!("{logprobs}{seed}")
    }

    /// What the speed does not say.
    fn caveat(&self) -> &'static str {
        if self.speculative.cycles_by_proposer.keys().all(|&name| name == "none") {
            "; nothing was drafted, so this is plain decoding twice"
        } else if self.plain.completion_tokens < ENOUGH_IDS {
            "; too short an answer to judge speed by"
        } else {
            ""
        }
    }
}

/// Runs the command; the exit code is 1 on a difference.
pub fn check(runtime: &Runtime, request: &GenerateRequest, prompt: &[u32]) -> Outcome<ExitCode> {
    let decode = |decoding| answer(runtime, request, prompt, decoding, None);
    let (speculative, plain) = (decode(Decoding::Speculative)?, decode(Decoding::Plain)?);
    let report = CheckReport::compare(&speculative, &plain, |common| {
        let before = [prompt, common].concat();
        let logits = runtime.engine().logits_after(before).map_err(|error| Failure::from_error(&error))?;
        Ok(top2_margin(&logits))
    })?;
    print(&if request.json { to_json(&report)? } else { report.text() })?;
    Ok(ExitCode::from(report.exit_code()))
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 1.0 }
}

/// Index of the first id in which two answers differ, also when one is a beginning of the other.
pub fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len().max(b.len())).then_some(common)
}

/// Best logit minus second best; infinite where there is no second.
pub fn top2_margin(logits: &[f32]) -> f32 {
    let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &logit in logits {
        if logit > best {
            (best, second) = (logit, best);
        } else if logit > second {
            second = logit;
        }
    }
    best - second
}

#[cfg(test)]
mod tests {
    use dflash_engine::{FinishReason, Stats};

    use super::*;
    use crate::logprobs::{AlternativeReport, TokenReport};

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 2, 3], &[1, 9, 3]), Some(1));
        assert_eq!(first_difference(&[1, 2], &[1, 2, 3]), Some(2));
        assert_eq!(first_difference(&[], &[4]), Some(0));
        assert_eq!(first_difference(&[], &[]), None);
    }

    fn said(ids: &[u32]) -> Answer {
        let stats = Stats { completion_tokens: ids.len(), ..Stats::default() };
        let (ids, reason) = (ids.to_vec(), FinishReason::Length);
        Answer { text: String::new(), ids, reason, stats, seed: None, logprobs: None }
    }

    #[test]
    fn equal_ids_are_identical() {
        let unasked = |_: &[u32]| panic!("there is no difference to explain");
        let report = CheckReport::compare(&said(&[5, 6]), &said(&[5, 6]), unasked).unwrap();
        assert!(report.identical);
        assert_eq!((&report.first_difference, report.exit_code()), (&None, 0));
        assert!(report.text().starts_with("identical: 2 ids\n"), "{}", report.text());
    }

    #[test]
    fn a_difference_is_told_and_fails() {
        let compare = |speculative, plain| {
            let margin = |common: &[u32]| Ok(common.len() as f32 + 0.5);
            CheckReport::compare(&said(speculative), &said(plain), margin).unwrap()
        };
        let report = compare(&[5, 61, 7], &[5, 62, 7]);
        assert!(!report.identical);
        let first = Difference { index: 1, speculative: Some(61), plain: Some(62), top2_margin: 1.5 };
        assert_eq!((&report.first_difference, report.exit_code()), (&Some(first), 1));
        let text = report.text();
        let told = "DIFFERENT from id 1 on: id 61 with the draft, id 62 without; top-2 margin 1.5\n";
        assert!(text.starts_with(told), "{text}");
        let shorter = compare(&[5], &[5, 6]);
        assert_eq!(shorter.exit_code(), 1);
        assert!(shorter.text().contains("the end with the draft, id 6 without"), "{}", shorter.text());
    }

    #[test]
    fn log_probabilities_that_differ_fail_too() {
        let answer = |logprob: f32| {
            let chosen = AlternativeReport { id: 5, token: "x".into(), bytes: vec![120], logprob };
            Answer {
                logprobs: Some(vec![TokenReport { chosen, top: Vec::new() }]),
                seed: Some(3),
                ..said(&[5])
            }
        };
        let compare = |other: f32| CheckReport::compare(&answer(-0.5), &answer(other), |_| Ok(0.0)).unwrap();
        assert!(compare(-0.5).text().starts_with("identical: 1 ids, log-probabilities too, seed 3\n"));
        let different = compare(-0.500_000_1);
        assert_eq!((different.identical, different.exit_code()), (false, 1));
        assert!(different.text().starts_with("DIFFERENT log-probabilities"), "{}", different.text());
    }

    #[test]
    fn the_margin_cannot_be_had() {
        let fails = |_: &[u32]| Err(Failure::new("no logits"));
        assert!(CheckReport::compare(&said(&[1]), &said(&[2]), fails).is_err());
    }

    #[test]
    fn the_margin_is_that_of_the_two_best() {
        assert_eq!(top2_margin(&[1.0, 4.0, 3.5, -2.0]), 0.5);
        assert_eq!(top2_margin(&[4.0, 4.0]), 0.0);
        assert_eq!(top2_margin(&[4.0]), f32::INFINITY);
    }
}
