use super::counts::Counts;
use super::distribution::{Distribution, scale};
use super::filter::filter;
use super::highest::highest;
use super::{Noise, SamplingParams};
use crate::TokenMask;

/// What decides the ids of an answer, besides its logits.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// The parameters.
    pub params: &'a SamplingParams,
    /// Number of the answer among those to one request.
    pub choice: u32,
    /// Leading ids that are the prompt.
    pub prompt: usize,
}

impl Rule<'_> {
    /// Nothing where the highest of the model's own logits is chosen.
    pub fn unless_plain(self) -> Option<Self> {
        (!self.params.is_plain()).then_some(self)
    }
}

/// Makes [`Distribution`]s out of logits. It holds scratch only: what it gives depends on its arguments alone.
#[derive(Debug, Default)]
pub struct Sampler {
    adjusted: Vec<f32>,
    counts: Counts,
    kept: Vec<u32>,
}

impl Sampler {
    /// The distribution of the id behind `ids` and `more`, which are told apart only so that a block needs no copy of
    /// the ids before it. `logits[id]` are the model's own; an id it cannot choose has `-inf`.
    ///
    /// # Errors
    /// The lowest id whose logit is NaN.
    pub fn distribution<'a>(
        &'a mut self,
        rule: &Rule<'_>,
        ids: &[u32],
        more: &[u32],
        logits: &'a [f32],
    ) -> Result<Distribution<'a>, u32> {
        let Self { adjusted, counts, kept } = self;
        let row = match rule.params.adjusts() {
            true => adjust(rule, ids, more, logits, adjusted, counts),
            false => logits,
        };
        let best = highest(row)?;
        Ok(distribution(rule, ids.len() + more.len(), row, best, kept))
    }

    /// As [`Sampler::distribution`] after `ids`, among the ids of `mask`; nothing where none of them can be chosen.
    ///
    /// # Errors
    /// The lowest id whose logit is NaN, in the mask or not.
    pub fn distribution_among<'a>(
        &'a mut self,
        rule: &Rule<'_>,
        ids: &[u32],
        mask: &TokenMask,
        logits: &[f32],
    ) -> Result<Option<Distribution<'a>>, u32> {
        highest(logits)?;
        let Self { adjusted, counts, kept } = self;
        adjust(rule, ids, &[], logits, adjusted, counts);
        mask.apply(adjusted);
        let best = highest(adjusted)?;
        let possible = adjusted[best as usize] > f32::NEG_INFINITY;
        Ok(possible.then(|| distribution(rule, ids.len(), adjusted, best, kept)))
    }
}

/// What is left of a row after bias and penalties, whose highest logit is that of `best`.
fn distribution<'a>(
    rule: &Rule<'_>,
    position: usize,
    row: &'a [f32],
    best: u32,
    kept: &'a mut Vec<u32>,
) -> Distribution<'a> {
    let params = rule.params;
    let scale = scale(params, row[best as usize]);
    let greedy = params.is_greedy();
    let filtered = !greedy && filter(params, row, &scale, kept);
    let noise = Noise::new(params.seed, rule.choice, position);
    let (kept, noise) = (filtered.then_some(&**kept), (!greedy).then_some(noise));
    Distribution { row, best, scale, kept, noise }
}

/// Biases, then penalties, each rounded to f32.
fn adjust<'a>(
    rule: &Rule<'_>,
    ids: &[u32],
    more: &[u32],
    logits: &[f32],
    adjusted: &'a mut Vec<f32>,
    counts: &mut Counts,
) -> &'a [f32] {
    adjusted.clear();
    adjusted.extend_from_slice(logits);
    for (&id, &bias) in &rule.params.logit_bias {
        if let Some(logit) = adjusted.get_mut(id as usize) {
            *logit = (f64::from(*logit) + bias) as f32;
        }
    }
    if rule.params.penalises() {
        counts.follow(rule.prompt, ids, more);
        counts.penalise(rule.params, adjusted);
    }
    adjusted
}
