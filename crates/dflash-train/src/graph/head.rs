use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, D, InplaceOp1, Layout, Result, Tensor};
use rayon::prelude::*;

use super::ops::{Precision, dot, exp, largest, multiply, sum, values};
use super::parameters::MarkovParameters;

/// What the target's head, and a Markov head, say of rows. The cap of some targets' logits is left out of the draft's: it
/// changes no order.
pub struct Head<'a> {
    /// `[ids of the draft, hidden]`, constant.
    pub table: &'a Tensor,
    pub markov: Option<&'a MarkovParameters>,
    pub precision: Precision,
    /// `cap` of the target's logits `cap * tanh(l / cap)`.
    pub softcap: Option<f32>,
}

/// What is to be found at each row.
pub struct Goals {
    /// Rows of the head.
    pub labels: Vec<u32>,
    /// What an error weighs; the sum of all is 1.
    pub weights: Vec<f32>,
    /// The true id before each, which a Markov head looks at.
    pub previous: Vec<u32>,
    /// `[rows, hidden]`: what the target's head saw when it chose the labels. Where it is known, the draft learns all that
    /// the target thought of its ids, not just which one was the likeliest.
    pub seen: Option<Tensor>,
}

/// Of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Cross entropy in nats.
    pub loss: f32,
    /// The row of the head that is chosen.
    pub choice: u32,
}

impl Head<'_> {
    /// The outcome of each row of `x`, `[rows, hidden]`.
    pub fn measure(&self, x: &Tensor, goals: &Goals) -> Result<Vec<Outcome>> {
        let (logits, _) = self.logits(x, goals)?;
        Ok(outcomes(&logits, goals, self.targets(goals)?.as_ref())?.0)
    }

    /// The outcomes, and a number whose gradients are those of the weighted loss: the logits and their gradients, which
    /// are by far the largest tensors of a step, are made in one place and are gone when this returns.
    pub fn loss(&self, x: &Tensor, goals: &Goals) -> Result<(Vec<Outcome>, Tensor)> {
        let (logits, embedded) = self.logits(x, goals)?;
        let (outcomes, grad) = outcomes(&logits, goals, self.targets(goals)?.as_ref())?;
        drop(logits);
        let mut surrogate = (x * multiply(&grad, self.table, self.precision)?)?.sum_all()?;
        if let (Some(markov), Some(embedded)) = (self.markov, embedded) {
            let embedded_grad = multiply(&grad, &markov.w2, self.precision)?;
            let w2_grad = multiply(&grad.t()?, &embedded, self.precision)?;
            surrogate = (surrogate + (embedded * embedded_grad)?.sum_all()?)?;
            surrogate = (surrogate + (markov.w2.as_tensor() * w2_grad)?.sum_all()?)?;
        }
        Ok((outcomes, surrogate))
    }

    /// The target's logits, of the ids of the draft.
    fn targets(&self, goals: &Goals) -> Result<Option<Tensor>> {
        let Some(seen) = &goals.seen else { return Ok(None) };
        let logits = multiply(seen, &self.table.t()?, self.precision)?;
        Ok(Some(match self.softcap {
            Some(cap) => ((logits / f64::from(cap))?.tanh()? * f64::from(cap))?,
            None => logits,
        }))
    }

    /// Logits, and the rows of the Markov head's embedding.
    fn logits(&self, x: &Tensor, goals: &Goals) -> Result<(Tensor, Option<Tensor>)> {
        let logits = multiply(x, &self.table.t()?, self.precision)?;
        let Some(markov) = self.markov else { return Ok((logits, None)) };
        let previous = Tensor::new(goals.previous.as_slice(), x.device())?;
        let embedded = markov.w1.index_select(&previous, 0)?;
        let bias = multiply(&embedded, &markov.w2.t()?, self.precision)?;
        Ok(((logits + bias)?, Some(embedded)))
    }
}

/// The outcomes, and the gradient of the weighted loss by the logits, which may take their place. The loss is the cross
/// entropy against what `targets`, logits too, say of all ids, or against the labels alone.
fn outcomes(logits: &Tensor, goals: &Goals, targets: Option<&Tensor>) -> Result<(Vec<Outcome>, Tensor)> {
    if !logits.device().is_cpu() {
        return composed(logits, goals, targets);
    }
    let (outcomes, targets) = (Mutex::new(Vec::new()), targets.map(values).transpose()?);
    logits.inplace_op1(&CrossEntropy { goals, targets: targets.as_deref(), outcomes: &outcomes })?;
    Ok((outcomes.into_inner().unwrap_or_else(PoisonError::into_inner), logits.clone()))
}

fn composed(logits: &Tensor, goals: &Goals, targets: Option<&Tensor>) -> Result<(Vec<Outcome>, Tensor)> {
    let device = logits.device();
    let weights = Tensor::new(goals.weights.as_slice(), device)?.unsqueeze(1)?;
    let logarithms = log_softmax(logits)?;
    let wanted = match targets {
        Some(targets) => log_softmax(targets)?.exp()?,
        None => {
            let labels = Tensor::new(goals.labels.as_slice(), device)?.unsqueeze(1)?;
            logits.zeros_like()?.scatter_add(&labels, &weights.ones_like()?, 1)?
        }
    };
    let losses = (&logarithms * &wanted)?.sum(D::Minus1)?.neg()?.to_vec1::<f32>()?;
    let choices = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
    let grad = (logarithms.exp()? - wanted)?.broadcast_mul(&weights)?;
    let outcomes = losses.into_iter().zip(choices).map(|(loss, choice)| Outcome { loss, choice });
    Ok((outcomes.collect(), grad))
}

fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
    shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

/// Makes of logits the gradient of the weighted loss.
struct CrossEntropy<'a> {
    goals: &'a Goals,
    targets: Option<&'a [f32]>,
    outcomes: &'a Mutex<Vec<Outcome>>,
}

impl InplaceOp1 for CrossEntropy<'_> {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, logits: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (_, cols) = layout.shape().dims2()?;
        let CpuStorage::F32(values) = logits else { candle_core::bail!("logits are not in f32") };
        let Goals { labels, weights, .. } = self.goals;
        let rows = values.par_chunks_mut(cols).zip(labels).zip(weights).enumerate();
        let outcomes = rows.map(|(index, ((row, &label), &weight))| match self.targets {
            Some(targets) => soft(row, &targets[index * cols..][..cols], weight),
            None => hard(row, label as usize, weight),
        });
        *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner) = outcomes.collect();
        Ok(())
    }
}

/// Of a row of logits with a label.
fn hard(row: &mut [f32], label: usize, weight: f32) -> Outcome {
    let (choice, most) = best(row);
    let own = row[label] - most;
    let total = exps(row, most);
    row.iter_mut().for_each(|value| *value *= weight / total);
    row[label] -= weight;
    Outcome { loss: total.ln() - own, choice }
}

/// Of a row of logits with those of the target.
fn soft(row: &mut [f32], targets: &[f32], weight: f32) -> Outcome {
    let (choice, most) = best(row);
    let mut wanted = targets.to_vec();
    let (_, wanted_most) = best(targets);
    let wanted_total = exps(&mut wanted, wanted_most);
    let own = dot(row, &wanted) / wanted_total - most;
    let total = exps(row, most);
    for (value, wanted) in row.iter_mut().zip(&wanted) {
        *value = *value * (weight / total) - wanted * (weight / wanted_total);
    }
    Outcome { loss: total.ln() - own, choice }
}

/// The first of the largest, and its value.
fn best(row: &[f32]) -> (u32, f32) {
    let most = largest(row);
    (row.iter().position(|&value| value == most).unwrap_or(0) as u32, most)
}

/// Replaces values by `exp(value - most)`; their sum.
fn exps(row: &mut [f32], most: f32) -> f32 {
    row.iter_mut().for_each(|value| *value = exp(*value - most));
    sum(row)
}

#[cfg(test)]
mod tests {
    use super::super::ops::check::random;
    use super::*;

    #[test]
    fn fused_is_composed() -> Result<()> {
        let logits = random(&[5, 37], 1)?;
        let goals = Goals {
            labels: vec![0, 36, 5, 5, 12],
            weights: vec![0.5, 0.25, 0.125, 0.0, 0.125],
            previous: Vec::new(),
            seen: None,
        };
        for targets in [None, Some(random(&[5, 37], 2)?)] {
            let (wanted, wanted_grad) = composed(&logits, &goals, targets.as_ref())?;
            let (got, grad) = outcomes(&logits.copy()?, &goals, targets.as_ref())?;
            for (got, wanted) in got.iter().zip(&wanted) {
                assert_eq!(got.choice, wanted.choice);
                assert!((got.loss - wanted.loss).abs() < 1e-5, "{got:?} {wanted:?}");
            }
            let difference = (grad - wanted_grad)?.abs()?.max_all()?.to_scalar::<f32>()?;
            assert!(difference < 1e-6, "{difference}");
        }
        Ok(())
    }
}
