use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, D, InplaceOp1, Layout, Result, Tensor};
use rayon::prelude::*;

use super::ops::{exp, largest, sum};
use super::parameters::MarkovParameters;

/// What the target's head, and a Markov head, say of rows. The cap of some targets' logits is left out: it changes no
/// order.
pub struct Head<'a> {
    /// `[ids of the draft, hidden]`, constant.
    pub table: &'a Tensor,
    pub markov: Option<&'a MarkovParameters>,
}

/// What is to be found at each row.
pub struct Goals {
    /// Rows of the head.
    pub labels: Vec<u32>,
    /// What an error weighs; the sum of all is 1.
    pub weights: Vec<f32>,
    /// The true id before each, which a Markov head looks at.
    pub previous: Vec<u32>,
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
        let (logits, _) = self.logits(&x.detach(), goals)?;
        Ok(outcomes(&logits.detach(), goals)?.0)
    }

    /// The outcomes, and a number whose gradients are those of the weighted loss: the logits and their gradients, which
    /// are by far the largest tensors of a step, are made in one place and are gone when this returns.
    pub fn loss(&self, x: &Tensor, goals: &Goals) -> Result<(Vec<Outcome>, Tensor)> {
        let (logits, embedded) = self.logits(&x.detach(), goals)?;
        let (outcomes, grad) = outcomes(&logits.detach(), goals)?;
        drop(logits);
        let mut surrogate = (x * grad.matmul(self.table)?)?.sum_all()?;
        if let (Some(markov), Some(embedded)) = (self.markov, embedded) {
            let embedded_grad = grad.matmul(&markov.w2.detach())?;
            let w2_grad = grad.t()?.matmul(&embedded.detach())?;
            surrogate = (surrogate + (embedded * embedded_grad)?.sum_all()?)?;
            surrogate = (surrogate + (markov.w2.as_tensor() * w2_grad)?.sum_all()?)?;
        }
        Ok((outcomes, surrogate))
    }

    /// Logits, and the rows of the Markov head's embedding.
    fn logits(&self, x: &Tensor, goals: &Goals) -> Result<(Tensor, Option<Tensor>)> {
        let logits = x.matmul(&self.table.t()?)?;
        let Some(markov) = self.markov else { return Ok((logits, None)) };
        let previous = Tensor::new(goals.previous.as_slice(), x.device())?;
        let embedded = markov.w1.index_select(&previous, 0)?;
        let bias = embedded.detach().matmul(&markov.w2.detach().t()?)?;
        Ok(((logits + bias)?, Some(embedded)))
    }
}

/// The outcomes, and the gradient of the weighted loss by the logits, which may take their place.
fn outcomes(logits: &Tensor, goals: &Goals) -> Result<(Vec<Outcome>, Tensor)> {
    if !logits.device().is_cpu() {
        return composed(logits, goals);
    }
    let outcomes = Mutex::new(Vec::new());
    logits.inplace_op1(&CrossEntropy { goals, outcomes: &outcomes })?;
    Ok((outcomes.into_inner().unwrap_or_else(PoisonError::into_inner), logits.clone()))
}

fn composed(logits: &Tensor, goals: &Goals) -> Result<(Vec<Outcome>, Tensor)> {
    let device = logits.device();
    let labels = Tensor::new(goals.labels.as_slice(), device)?.unsqueeze(1)?;
    let weights = Tensor::new(goals.weights.as_slice(), device)?.unsqueeze(1)?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
    let exps = shifted.exp()?;
    let sums = exps.sum_keepdim(D::Minus1)?;
    let losses = (sums.log()? - shifted.gather(&labels, 1)?)?.squeeze(1)?.to_vec1::<f32>()?;
    let choices = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
    let grad =
        exps.broadcast_div(&sums)?.broadcast_mul(&weights)?.scatter_add(&labels, &weights.neg()?, 1)?;
    let outcomes = losses.into_iter().zip(choices).map(|(loss, choice)| Outcome { loss, choice });
    Ok((outcomes.collect(), grad))
}

/// Makes of logits the gradient of the weighted loss.
struct CrossEntropy<'a> {
    goals: &'a Goals,
    outcomes: &'a Mutex<Vec<Outcome>>,
}

impl InplaceOp1 for CrossEntropy<'_> {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, logits: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (_, cols) = layout.shape().dims2()?;
        let CpuStorage::F32(values) = logits else { candle_core::bail!("logits are not in f32") };
        let goals = self.goals.labels.par_iter().zip(&self.goals.weights);
        let outcomes = values.par_chunks_mut(cols).zip(goals).map(|(row, (&label, &weight))| {
            let most = largest(row);
            let choice = row.iter().position(|&value| value == most).unwrap_or(0) as u32;
            let own = row[label as usize] - most;
            row.iter_mut().for_each(|value| *value = exp(*value - most));
            let total = sum(row);
            let factor = weight / total;
            row.iter_mut().for_each(|value| *value *= factor);
            row[label as usize] -= weight;
            Outcome { loss: total.ln() - own, choice }
        });
        *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner) = outcomes.collect();
        Ok(())
    }
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
        };
        let (wanted, wanted_grad) = composed(&logits, &goals)?;
        let (got, grad) = outcomes(&logits.copy()?, &goals)?;
        for (got, wanted) in got.iter().zip(&wanted) {
            assert_eq!(got.choice, wanted.choice);
            assert!((got.loss - wanted.loss).abs() < 1e-5, "{got:?} {wanted:?}");
        }
        let difference = (grad - wanted_grad)?.abs()?.max_all()?.to_scalar::<f32>()?;
        assert!(difference < 1e-6, "{difference}");
        Ok(())
    }
}
