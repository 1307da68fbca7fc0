use candle_core::{Device, Tensor, Var};

use super::adamw::{AdamW, Moments, Update};
use super::forward::Forward;
use super::head::{Goals, Head, Outcome};
use super::ops::{Precision, rms_norm};
use super::parameters::Parameters;
use super::plan::Plan;
use super::schedule::Schedule;
use crate::batch::Batch;
use crate::{DraftShape, DraftWeights, TargetTables, TrainError};

/// How weights change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerOptions {
    /// Learning rates.
    pub schedule: Schedule,
    /// The optimiser's constants.
    pub adam: AdamW,
    /// Norm of all gradients together that is not exceeded.
    pub clip: f64,
    /// Of the large products.
    pub precision: Precision,
}

/// A draft in training.
pub struct Trainer {
    shape: DraftShape,
    options: TrainerOptions,
    device: Device,
    parameters: Parameters,
    /// In the order of the parameters.
    moments: Vec<Moments>,
    /// Steps that there have been.
    step: usize,
    embedding: Tensor,
    head: Tensor,
    /// Gains of the target's last norm.
    target_norm: Option<Tensor>,
    /// Of the target's logits.
    softcap: Option<f32>,
}

/// All that a run goes on from.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainState {
    /// Steps that there have been.
    pub step: usize,
    /// The draft's weights.
    pub weights: DraftWeights,
    /// Means of their gradients.
    pub means: DraftWeights,
    /// Means of the squares of their gradients.
    pub squares: DraftWeights,
}

/// How well a batch is predicted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measure {
    /// The weighted mean of the cross entropy in nats, over slots whose id the draft can propose.
    pub loss: f64,
    /// For each slot, blocks that have an id there.
    pub known: Vec<usize>,
    /// For each slot, those of them where the draft's choice is that id.
    pub right: Vec<usize>,
    /// For each slot, those of them where it is right there and at all slots before.
    pub accepted: Vec<usize>,
    /// Blocks.
    pub blocks: usize,
}

impl Measure {
    /// Tokens of a cycle that would begin at a random anchor: one more than are accepted. With a Markov head too, as it
    /// follows its own choices only while these are right.
    pub fn tokens_per_cycle(&self) -> f64 {
        1.0 + self.accepted.iter().sum::<usize>() as f64 / self.blocks.max(1) as f64
    }
}

/// What a step did.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    /// How well the batch was predicted before the step.
    pub measure: Measure,
    /// Norm of all gradients together, before it was clipped.
    pub grad_norm: f64,
    /// Learning rate.
    pub rate: f64,
}

impl Trainer {
    /// A draft that begins with `weights`. `tables` hold the rows of the embedding of all target ids and those of the
    /// head of the ids that the draft can propose, both in ascending order of ids.
    ///
    /// # Errors
    /// Weights or tables of another shape, and the device's.
    pub fn new(
        shape: DraftShape,
        weights: &DraftWeights,
        tables: &TargetTables,
        options: TrainerOptions,
        device: Device,
    ) -> Result<Self, TrainError> {
        crate::memory::keep_freed();
        let parameters = Parameters::new(&shape, weights, &device)?;
        let moments =
            parameters.all.iter().map(|parameter| Moments::new(&parameter.var)).collect::<Result<_, _>>()?;
        let table = |what: &str, matrix: &crate::Matrix, rows: usize| {
            if matrix.shape != [rows, shape.hidden] {
                let wanted = [rows, shape.hidden];
                let what =
                    format!("the target's {what} is {:?}, but the draft needs {wanted:?}", matrix.shape);
                return Err(TrainError::Refused(format!("{what}; train it for the target it was made for")));
            }
            Ok(Tensor::from_slice(&matrix.values, matrix.shape.as_slice(), &device)?)
        };
        let embedding = table("embedding", &tables.embedding, shape.target_vocab)?;
        let head = table("head", &tables.head, shape.vocab_len())?;
        let target_norm =
            tables.norm.as_ref().map(|norm| Tensor::from_slice(norm, norm.len(), &device)).transpose()?;
        Ok(Self {
            shape,
            options,
            device,
            parameters,
            moments,
            step: 0,
            embedding,
            head,
            target_norm,
            softcap: tables.softcap,
        })
    }

    /// Improves the draft by a batch.
    ///
    /// # Errors
    /// The device's, and gradients that are no numbers: the draft is as before then.
    pub fn step(&mut self, batch: &Batch) -> Result<StepReport, TrainError> {
        let plan = Plan::new(batch, &self.shape, &self.device)?;
        let rate = self.options.schedule.rate(self.step);
        if plan.wanted.is_empty() {
            self.step += 1;
            return Ok(StepReport { measure: measure(batch, &plan, &[]), grad_norm: 0.0, rate });
        }
        let (outcomes, grads) = self.gradients_of(batch, &plan)?;
        let grad_norm = norm(&grads)?;
        if !grad_norm.is_finite() {
            return Err(TrainError::Refused(format!(
                "the gradients of step {} are no numbers; begin anew with a lower --learning-rate, from the last \
                 checkpoint with --start",
                self.step
            )));
        }
        let update = Update {
            adam: self.options.adam,
            rate,
            factor: (self.options.clip / grad_norm).min(1.0),
            count: i32::try_from(self.step + 1).unwrap_or(i32::MAX),
        };
        for ((parameter, moments), grad) in self.parameters.all.iter().zip(&mut self.moments).zip(grads) {
            let update = Update { rate: rate * parameter.rate(), ..update };
            update.apply(&parameter.var, moments, &grad, parameter.decays())?;
        }
        self.step += 1;
        Ok(StepReport { measure: measure(batch, &plan, &outcomes), grad_norm, rate })
    }

    /// How well the draft predicts a batch.
    ///
    /// # Errors
    /// The device's.
    pub fn measure(&self, batch: &Batch) -> Result<Measure, TrainError> {
        let plan = Plan::new(batch, &self.shape, &self.device)?;
        if plan.wanted.is_empty() {
            return Ok(measure(batch, &plan, &[]));
        }
        let x = self.forward().run(&plan)?;
        let outcomes = self.head().measure(&x, &self.goals(batch, &plan)?)?;
        Ok(measure(batch, &plan, &outcomes))
    }

    /// The draft's weights.
    ///
    /// # Errors
    /// The device's.
    pub fn weights(&self) -> Result<DraftWeights, TrainError> {
        self.parameters.weights()
    }

    /// The shape of the draft.
    pub fn shape(&self) -> &DraftShape {
        &self.shape
    }

    /// Steps that there have been.
    pub fn steps(&self) -> usize {
        self.step
    }

    /// All that the run goes on from.
    ///
    /// # Errors
    /// The device's.
    pub fn state(&self) -> Result<TrainState, TrainError> {
        let (mut means, mut squares) = (DraftWeights::new(), DraftWeights::new());
        for (parameter, moments) in self.parameters.all.iter().zip(&self.moments) {
            parameter.split(&moments.both.get(0)?, &mut means)?;
            parameter.split(&moments.both.get(1)?, &mut squares)?;
        }
        Ok(TrainState { step: self.step, weights: self.weights()?, means, squares })
    }

    /// Goes on from `state`: what follows is what would have followed there, bit for bit on the same machine with as
    /// many threads.
    ///
    /// # Errors
    /// A state of another shape; the draft is as before then.
    pub fn restore(&mut self, state: &TrainState) -> Result<(), TrainError> {
        let parameters = Parameters::new(&self.shape, &state.weights, &self.device)?;
        let moments = |parameter: &super::parameters::Parameter| {
            let mean = parameter.join(&state.means, &self.device)?;
            let square = parameter.join(&state.squares, &self.device)?;
            Ok(Moments { both: Tensor::stack(&[mean, square], 0)? })
        };
        self.moments = parameters.all.iter().map(moments).collect::<Result<_, TrainError>>()?;
        self.parameters = parameters;
        self.step = state.step;
        Ok(())
    }

    /// Outcomes of the wanted rows, and the gradients of the loss in the order of the parameters.
    fn gradients_of(&self, batch: &Batch, plan: &Plan) -> Result<(Vec<Outcome>, Vec<Tensor>), TrainError> {
        let x = self.forward().run(plan)?;
        let (outcomes, loss) = self.head().loss(&x, &self.goals(batch, plan)?)?;
        let mut grads = loss.backward()?;
        let mut grad = |var: &Var| grads.remove(var).map_or_else(|| var.zeros_like(), Ok);
        let grads = self.parameters.all.iter().map(|parameter| grad(&parameter.var));
        Ok((outcomes, grads.collect::<Result<_, _>>()?))
    }

    /// Of the wanted rows.
    fn goals(&self, batch: &Batch, plan: &Plan) -> Result<Goals, TrainError> {
        let slots = batch.slots();
        let weights: Vec<f32> = plan.slots.iter().map(|&slot| batch.weights[slot % slots]).collect();
        let total: f32 = weights.iter().sum();
        let previous = |&slot: &usize| match slot % slots {
            0 => batch.staged[slot / slots],
            _ => batch.truth[slot - 1].expect("an id before one that there is"),
        };
        Ok(Goals {
            labels: plan.slots.iter().filter_map(|&slot| batch.labels[slot]).collect(),
            weights: weights.into_iter().map(|weight| weight / total).collect(),
            previous: plan.slots.iter().map(previous).collect(),
            seen: self.seen(batch, plan)?,
        })
    }

    /// What the target's head saw when it chose the ids of the wanted rows.
    fn seen(&self, batch: &Batch, plan: &Plan) -> Result<Option<Tensor>, TrainError> {
        let Some(norm) = self.target_norm.as_ref().filter(|_| !batch.last.is_empty()) else {
            return Ok(None);
        };
        let width = self.shape.hidden;
        let rows = plan.slots.iter().flat_map(|&slot| &batch.last[slot * width..(slot + 1) * width]);
        let rows = Tensor::from_iter(rows.copied(), &self.device)?.reshape((plan.slots.len(), width))?;
        Ok(Some(rms_norm(&rows, norm, self.shape.rms_norm_eps)?))
    }

    fn forward(&self) -> Forward<'_> {
        let Self { shape, parameters, embedding, device, options, .. } = self;
        Forward { shape, parameters, embedding, device, precision: options.precision }
    }

    fn head(&self) -> Head<'_> {
        Head {
            table: &self.head,
            markov: self.parameters.markov.as_ref(),
            precision: self.options.precision,
            softcap: self.softcap,
        }
    }
}

/// `outcomes` are those of the wanted rows.
fn measure(batch: &Batch, plan: &Plan, outcomes: &[Outcome]) -> Measure {
    let slots = batch.slots();
    let mut right = vec![false; batch.truth.len()];
    let (mut loss, mut total) = (0.0, 0.0);
    for (&slot, outcome) in plan.slots.iter().zip(outcomes) {
        right[slot] = batch.labels[slot] == Some(outcome.choice);
        let weight = f64::from(batch.weights[slot % slots]);
        loss += weight * f64::from(outcome.loss);
        total += weight;
    }
    let mut measure = Measure {
        loss: if total > 0.0 { loss / total } else { 0.0 },
        known: vec![0; slots],
        right: vec![0; slots],
        accepted: vec![0; slots],
        blocks: batch.anchors.len(),
    };
    for (truth, right) in batch.truth.chunks_exact(slots).zip(right.chunks_exact(slots)) {
        let mut accepted = true;
        for slot in 0..slots {
            accepted &= right[slot];
            measure.known[slot] += usize::from(truth[slot].is_some());
            measure.right[slot] += usize::from(right[slot]);
            measure.accepted[slot] += usize::from(accepted);
        }
    }
    measure
}

/// The norm of all gradients together.
fn norm(grads: &[Tensor]) -> Result<f64, TrainError> {
    let mut squares = 0.0;
    for grad in grads {
        squares += f64::from(grad.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    Ok(squares.sqrt())
}

#[cfg(test)]
impl Trainer {
    pub(super) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(super) fn gradients(&self, batch: &Batch) -> Result<Vec<Tensor>, TrainError> {
        Ok(self.gradients_of(batch, &Plan::new(batch, &self.shape, &self.device)?)?.1)
    }

    pub(super) fn outcomes(&self, batch: &Batch) -> Result<Vec<Outcome>, TrainError> {
        let plan = Plan::new(batch, &self.shape, &self.device)?;
        Ok(self.head().measure(&self.forward().run(&plan)?, &self.goals(batch, &plan)?)?)
    }
}
