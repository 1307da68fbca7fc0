use std::collections::BTreeMap;
use std::ops::Deref;

use super::{Field, SamplingError};

/// How ids are chosen, as somebody asks for it; [`SamplingParams::new`] says whether it can be done. By default the
/// highest logit is chosen as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the highest.
    pub temperature: f64,
    /// Keeps so many ids of the highest logits; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most probable ids that together have this probability; 1 keeps all.
    pub top_p: f64,
    /// Keeps the ids that have this share of the highest probability; 0 keeps all.
    pub min_p: f64,
    /// Divides positive logits of ids that were there, in prompt or answer, and multiplies negative ones; 1 does nothing.
    pub repetition_penalty: f64,
    /// Taken from the logits of ids that were in the answer.
    pub presence_penalty: f64,
    /// Taken from the logits of ids in the answer, once for each time they were there.
    pub frequency_penalty: f64,
    /// Added to the logits of these ids, before all else.
    pub logit_bias: BTreeMap<u32, f64>,
    /// Names the noise: the same seed, the same text.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            seed: 0,
        }
    }
}

/// Parameters that are known to be valid, but for the ids of a bias: those depend on the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplingParams(Sampling);

impl SamplingParams {
    /// Checks every field.
    ///
    /// # Errors
    /// [`SamplingError::OutOfRange`] for the first that is wrong.
    pub fn new(sampling: Sampling) -> Result<Self, SamplingError> {
        let numbers = [
            (Field::Temperature, sampling.temperature),
            (Field::TopP, sampling.top_p),
            (Field::MinP, sampling.min_p),
            (Field::RepetitionPenalty, sampling.repetition_penalty),
            (Field::PresencePenalty, sampling.presence_penalty),
            (Field::FrequencyPenalty, sampling.frequency_penalty),
        ];
        let biases = sampling.logit_bias.values().map(|&bias| (Field::LogitBias, bias));
        match numbers.into_iter().chain(biases).find(|(field, given)| !field.accepts(*given)) {
            Some((field, given)) => Err(SamplingError::OutOfRange { field, given }),
            None => Ok(Self(sampling)),
        }
    }

    /// Checks the ids of the bias.
    ///
    /// # Errors
    /// [`SamplingError::UnknownId`]
    pub fn fits(&self, vocab: usize) -> Result<(), SamplingError> {
        match self.logit_bias.keys().find(|&&id| id as usize >= vocab) {
            Some(&id) => Err(SamplingError::UnknownId { id, vocab }),
            None => Ok(()),
        }
    }

    /// Whether the highest logit wins, so that nothing is drawn.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }

    /// Whether logits are changed before anything is chosen.
    pub fn adjusts(&self) -> bool {
        self.penalises() || self.logit_bias.values().any(|&bias| bias != 0.0)
    }

    /// Whether the choice is the highest of the model's own logits.
    pub fn is_plain(&self) -> bool {
        self.is_greedy() && !self.adjusts()
    }

    /// Whether the ids before a position matter.
    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}

impl Deref for SamplingParams {
    type Target = Sampling;

    fn deref(&self) -> &Sampling {
        &self.0
    }
}
