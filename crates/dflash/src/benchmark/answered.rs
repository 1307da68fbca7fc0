use super::bench::Question;
use super::leg::Leg;
use super::positions::Positions;
use super::spread::Spread;
use super::trial::{Decoded, Trial};

/// A prompt and its answers.
pub struct Answered<'a> {
    /// The prompt.
    pub question: &'a Question,
    /// At least one answer of every leg.
    pub trials: Vec<Trial>,
}

impl Answered<'_> {
    /// The answers of a leg.
    pub fn of(&self, leg: Leg) -> impl Iterator<Item = &Decoded> {
        self.trials.iter().filter(move |trial| trial.leg == leg).map(|trial| &trial.decoded)
    }

    /// The first answer of a leg: counts of the others are the same where ids are.
    pub fn first(&self, leg: Leg) -> Option<&Decoded> {
        self.of(leg).next()
    }

    /// Ids after the first one, which decoding gave, and the median of the seconds it took.
    pub fn decoding(&self, leg: Leg) -> Option<(usize, f64)> {
        let ids = self.first(leg)?.stats.completion_tokens.saturating_sub(1);
        let seconds = Spread::of(self.of(leg).map(|decoded| decoded.stats.decode_s))?.median;
        Some((ids, seconds))
    }

    /// Speed over plain decoding.
    pub fn speedup(&self, leg: Leg) -> Option<f64> {
        ratio(speed([self], leg)?, speed([self], Leg::Plain)?)
    }

    /// Whether all answers have the same ids; `None` where one leg stands alone.
    pub fn identical(&self) -> Option<bool> {
        let first = self.trials.first()?;
        let compared = self.trials.iter().any(|trial| trial.leg != first.leg);
        compared.then(|| self.trials.iter().all(|trial| trial.decoded.ids == first.decoded.ids))
    }
}

/// Ids per second of a leg over some prompts: all ids over all seconds. `None` where nothing was decoded.
pub fn speed<'a>(prompts: impl IntoIterator<Item = &'a Answered<'a>>, leg: Leg) -> Option<f64> {
    let (mut ids, mut seconds) = (0, 0.0);
    for prompt in prompts {
        let (more, took) = prompt.decoding(leg)?;
        ids += more;
        seconds += took;
    }
    ratio(ids as f64, seconds).filter(|_| ids > 0)
}

/// Drafted ids by position over some prompts.
pub fn positions<'a>(prompts: impl IntoIterator<Item = &'a Answered<'a>>) -> Positions {
    let mut positions = Positions::default();
    let answers = prompts.into_iter().flat_map(|prompt| prompt.of(Leg::Dflash));
    answers.for_each(|decoded| positions.add(&decoded.stats));
    positions
}

/// A quotient that says something.
pub fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
pub mod by_hand {
    //! Prompts and answers made by hand.

    use dflash_engine::{FinishReason, PositionCount, Stats};

    use super::*;
    use crate::generate::ids_sha256;
    use crate::suite::Prompt;

    /// A prompt of three ids.
    pub fn question(id: &str, category: &str) -> Question {
        let prompt = Prompt {
            id: id.to_owned(),
            category: category.to_owned(),
            text: "x".to_owned(),
            answer: None,
            chat_template: false,
        };
        Question { prompt, ids: vec![1, 2, 3] }
    }

    /// An answer of these ids that took `decode_s` and `cycles`, `accepted` of them with one drafted id.
    pub fn trial(leg: Leg, ids: &[u32], decode_s: f64, cycles: usize, accepted: usize) -> Trial {
        let stats = Stats {
            prompt_tokens: 3,
            completion_tokens: ids.len(),
            prefill_s: 0.5,
            decode_s,
            cycles,
            cycles_by_width: [(1, cycles - accepted), (2, accepted)].into(),
            cycles_by_proposer: [("draft", accepted), ("none", cycles - accepted)].into(),
            drafted: accepted,
            accepted,
            accepted_by_position: vec![PositionCount { verified: cycles, accepted }],
            ..Stats::default()
        };
        let decoded = Decoded {
            finish_reason: FinishReason::Length,
            ttft_s: 0.5,
            prefill_tok_s: 6.0,
            decode_tok_s: stats.decode_tokens_per_second(),
            tokens_per_cycle: stats.tokens_per_cycle(),
            acceptance_ratio: stats.acceptance_ratio(),
            acceptance_per_drafted: stats.acceptance_per_drafted(),
            decode_bytes: 1000,
            peak_memory_bytes: None,
            peak_is_own: true,
            ids_sha256: ids_sha256(ids),
            stats,
            ids: ids.to_vec(),
        };
        Trial { prompt: "p".to_owned(), category: "c".to_owned(), round: 0, leg, decoded }
    }
}

#[cfg(test)]
mod tests {
    use super::by_hand::{question, trial};
    use super::*;

    const IDS: [u32; 5] = [9, 8, 7, 6, 5];

    #[test]
    fn answers_are_compared_by_every_id_of_every_repetition() {
        let question = question("p", "c");
        let verdict = |trials| Answered { question: &question, trials }.identical();
        let (plain, same) = (trial(Leg::Plain, &IDS, 1.0, 4, 0), trial(Leg::Dflash, &IDS, 1.0, 4, 0));
        let other = trial(Leg::Dflash, &[9, 8, 7, 6, 4], 1.0, 4, 0);
        let shorter = trial(Leg::Ngram, &IDS[..4], 1.0, 4, 0);
        assert_eq!(verdict(vec![plain.clone(), same.clone()]), Some(true));
        assert_eq!(verdict(vec![plain.clone(), same.clone(), same, other]), Some(false));
        assert_eq!(verdict(vec![plain.clone(), shorter]), Some(false));
        assert_eq!(verdict(vec![plain.clone(), plain]), None, "one leg alone");
    }

    #[test]
    fn medians_of_repetitions_make_the_speed() {
        let question = question("p", "c");
        let plain = [2.0, 9.0, 1.0].map(|seconds| trial(Leg::Plain, &IDS, seconds, 4, 0));
        let dflash = [0.5, 1.5].map(|seconds| trial(Leg::Dflash, &IDS, seconds, 2, 2));
        let answered = Answered { question: &question, trials: [&plain[..], &dflash].concat() };
        assert_eq!(answered.decoding(Leg::Plain), Some((4, 2.0)));
        assert_eq!(answered.decoding(Leg::Ngram), None);
        assert_eq!(answered.speedup(Leg::Dflash), Some(2.0));
        assert_eq!(answered.speedup(Leg::Ngram), None);
    }

    #[test]
    fn an_answer_of_one_id_has_no_speed() {
        let question = question("p", "c");
        let trials = vec![trial(Leg::Plain, &[7], 1e-7, 0, 0), trial(Leg::Dflash, &[7], 1e-7, 0, 0)];
        let answered = Answered { question: &question, trials };
        assert_eq!((speed([&answered], Leg::Plain), answered.speedup(Leg::Dflash)), (None, None));
    }
}
