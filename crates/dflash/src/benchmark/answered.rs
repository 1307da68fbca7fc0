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
