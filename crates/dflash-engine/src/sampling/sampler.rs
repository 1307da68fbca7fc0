use super::counts::Counts;
use super::distribution::{Distribution, scale};
use super::filter::filter;
use super::highest::highest;
use super::{Noise, SamplingParams};

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
        let params = rule.params;
        let row = match params.adjusts() {
            true => adjust(rule, ids, more, logits, adjusted, counts),
            false => logits,
        };
        let best = highest(row)?;
        let scale = scale(params, row[best as usize]);
        let greedy = params.is_greedy();
        let filtered = !greedy && filter(params, row, &scale, kept);
        let noise = Noise::new(params.seed, rule.choice, ids.len() + more.len());
        Ok(Distribution {
            row,
            best,
            scale,
            kept: filtered.then_some(kept),
            noise: (!greedy).then_some(noise),
        })
    }
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
