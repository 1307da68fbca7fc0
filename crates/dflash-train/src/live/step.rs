use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evaluate::{Evaluation, Score};

/// What a step of training came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLog {
    /// Steps so far.
    pub step: u64,
    /// Steps that training shall have.
    pub steps: u64,
    /// Times that the data was gone through so far.
    pub epoch: f64,
    /// Ids of answers seen so far, repetitions included.
    pub tokens: u64,
    /// Mean weighted cross entropy of the step.
    pub loss: f64,
    /// Part of the drafted ids that are right, slot by slot behind the anchor.
    pub accuracy: Vec<f64>,
    /// Norm of the gradient before it is clipped.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Pace of late.
    pub steps_per_s: f64,
    /// Seconds of training so far, those before an interruption included.
    pub seconds: f64,
}

/// The line that is shown of a step.
impl fmt::Display for StepLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, steps, epoch, loss, accuracy, grad_norm, lr, steps_per_s, .. } = self;
        write!(f, "step {step} of {steps} | epoch {epoch:.2} | loss {loss:.3} | right")?;
        accuracy.iter().take(3).try_for_each(|part| write!(f, " {:.1}", 100.0 * part))?;
        write!(f, " % | gradient {grad_norm:.2} | rate {lr:.1e} | {steps_per_s:.2} steps/s")?;
        if *steps_per_s > 0.0 {
            let left = steps.saturating_sub(*step) as f64 / steps_per_s;
            write!(f, " | {:.0} min left", (left / 60.0).ceil())?;
        }
        Ok(())
    }
}

/// What held-out prompts came to at a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationLog {
    /// Steps so far.
    pub step: u64,
    /// Ids of answers seen so far.
    pub tokens: u64,
    /// Rows of a block.
    pub width: usize,
    /// Of all prompts.
    pub all: Held,
    /// By category.
    pub categories: std::collections::BTreeMap<String, Held>,
}

/// What some held-out prompts came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Prompts.
    pub prompts: usize,
    /// Ids per pass of the target.
    pub tokens_per_cycle: f64,
    /// Part of the drafted ids that were accepted, by position.
    pub acceptance: Vec<f64>,
}

impl EvaluationLog {
    /// An evaluation after `step` steps that saw `tokens` ids of answers.
    pub fn new(step: u64, tokens: u64, evaluation: &Evaluation) -> Self {
        let held = |score: &Score| Held {
            prompts: score.prompts,
            tokens_per_cycle: score.tokens_per_cycle(),
            acceptance: score.acceptance(),
        };
        Self {
            step,
            tokens,
            width: evaluation.all.positions.len() + 1,
            all: held(&evaluation.all),
            categories: evaluation
                .categories
                .iter()
                .map(|(name, score)| (name.clone(), held(score)))
                .collect(),
        }
    }
}

/// The line that is shown of an evaluation.
impl fmt::Display for EvaluationLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, width, all, categories, .. } = self;
        write!(f, "step {step} | held out, width {width}: {:.3} tokens per cycle", all.tokens_per_cycle)?;
        categories.iter().try_for_each(|(name, held)| write!(f, " | {name} {:.3}", held.tokens_per_cycle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_plain() {
        let step = StepLog {
            step: 1200,
            steps: 5000,
            epoch: 1.25,
            loss: 3.7124,
            accuracy: vec![0.333, 0.0551, 0.01, 0.002],
            grad_norm: 0.8,
            lr: 6e-4,
            steps_per_s: 1.25,
            ..StepLog::default()
        };
        assert_eq!(
            step.to_string(),
            "step 1200 of 5000 | epoch 1.25 | loss 3.712 | right 33.3 5.5 1.0 % | gradient 0.80 | rate 6.0e-4 | \
             1.25 steps/s | 51 min left"
        );
        assert!(!StepLog::default().to_string().contains("left"));
        let held = Held { prompts: 2, tokens_per_cycle: 1.3561, acceptance: vec![0.33] };
        let categories = [("chat".to_owned(), held.clone())].into();
        let evaluation = EvaluationLog { step: 400, tokens: 9, width: 8, all: held, categories };
        assert_eq!(
            evaluation.to_string(),
            "step 400 | held out, width 8: 1.356 tokens per cycle | chat 1.356"
        );
    }
}
