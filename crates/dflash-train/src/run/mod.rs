//! A training run: sequences and a target in, a draft out, step by step, in a folder that it can be resumed from.

mod checkpoint;
mod folder;
mod order;
mod settings;
mod split;
mod vocabulary;

use std::path::Path;
use std::time::Instant;

use dflash_models::Target;

use crate::batch::{Anchors, Batch, BatchOptions, Sample};
use crate::evaluate::{EvaluateOptions, evaluate};
use crate::export::read_zlab;
use crate::features::{self, FeatureCache, Features};
use crate::graph::{AdamW, Device, Precision, Schedule, StepReport, Trainer, TrainerOptions};
use crate::live::{EvaluationLog, Log, Progress, StepLog};
use crate::lock::FolderLock;
use crate::{DraftShape, DraftWeights, Sequence, TargetTables, TrainError, init_from_layers};

pub use checkpoint::last_draft;
pub use settings::{RunSettings, Start};

use checkpoint::{Checkpoint, Counts};
use order::Order;

/// The pace that is shown is that of so many steps.
const PACE: usize = 20;

/// Steps of so many epochs over `sequences` of which `held_out` are held out, `per_step` in a step.
pub fn steps(epochs: f64, sequences: usize, held_out: usize, per_step: usize) -> usize {
    let trained = sequences - split::held(sequences, held_out);
    (epochs * Order::new(trained, per_step, 0).steps() as f64).ceil().max(1.0) as usize
}

/// What a run works with.
pub struct Run<'a> {
    /// The target that answered.
    pub target: &'a dyn Target,
    /// Loads it once more: evaluation decodes with an engine of its own.
    pub load: &'a dyn Fn() -> Result<Box<dyn Target>, TrainError>,
    /// Ids that end an answer.
    pub stop_ids: &'a [u32],
    /// Where features are kept, if they are.
    pub cache: Option<&'a FeatureCache>,
    /// What trains.
    pub device: Device,
    /// Settings, which the folder keeps.
    pub settings: &'a RunSettings,
    /// The folder.
    pub folder: &'a Path,
    /// Whether somebody wishes to stop; the last step is kept then.
    pub ended: &'a dyn Fn() -> bool,
}

/// Who watches a run.
pub trait Observer {
    /// Something worth knowing once.
    fn note(&mut self, text: &str);
    /// Features are computed.
    fn features(&mut self, progress: &Progress);
    /// A step is done.
    fn step(&mut self, step: &StepLog);
    /// So many of the held-out prompts are answered with the draft.
    fn answered(&mut self, done: usize, all: usize);
    /// All of them are.
    fn evaluated(&mut self, evaluation: &EvaluationLog);
}

impl Run<'_> {
    /// Trains on `sequences` from the last checkpoint in the folder, or from the beginning, to the last step. The draft
    /// is in the last checkpoint: [`last_draft`].
    ///
    /// # Errors
    /// A folder of another run, sequences that do not suffice, and what target, device and file system report.
    pub fn train(&self, sequences: Vec<Sequence>, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let _lock = FolderLock::take(self.folder)?;
        folder::check(self.folder, self.settings)?;
        features::check(self.target, self.settings.taps.as_deref().unwrap_or(&[0]), &sequences)?;
        let (sequences, held_out) = split::split(sequences, self.settings.held_out, self.settings.seed);
        if sequences.is_empty() {
            return Err(TrainError::Refused(
                "there is no sequence to train on; make some with train data".into(),
            ));
        }
        let mut course = self.course(&sequences, observer)?;
        let mut taps = course.trainer.shape().taps.clone();
        taps.push(self.target.spec().layers - 1);
        let features = Features::open(self.cache, self.target, &taps, &sequences, &mut |progress| {
            observer.features(progress);
            !(self.ended)()
        });
        let features = match features {
            Err(TrainError::Ended) => return Ok(()),
            features => features?,
        };
        self.make_up(&mut course, &held_out, observer)?;
        while course.counts.step < self.settings.steps && !(self.ended)() {
            let step = course.step(self, &sequences, &features)?;
            observer.step(&step);
            let due = self.is_due(course.counts.step);
            if due || (self.ended)() {
                course.checkpoint()?.write(self.folder)?;
            }
            if due {
                self.evaluate(&mut course, &held_out, observer)?;
            }
        }
        Ok(())
    }

    /// Whether a draft of so many steps is evaluated.
    fn is_due(&self, step: usize) -> bool {
        step == self.settings.steps || step.is_multiple_of(self.settings.evaluate_every)
    }

    /// The evaluation that an interruption prevented.
    fn make_up(
        &self,
        course: &mut Course,
        held_out: &[Sequence],
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let step = course.counts.step;
        let there = course.log.evaluations().last().is_some_and(|last| last.step == step as u64);
        if step > 0 && self.is_due(step) && !there {
            self.evaluate(course, held_out, observer)
        } else {
            Ok(())
        }
    }

    fn course(&self, sequences: &[Sequence], observer: &mut dyn Observer) -> Result<Course, TrainError> {
        let found = Checkpoint::read(self.folder)?;
        let (shape, weights) = match &found {
            Some(checkpoint) => (checkpoint.shape.clone(), checkpoint.state.weights.clone()),
            None => self.beginning(sequences, observer)?,
        };
        let trainer = self.trainer(shape, &weights)?;
        let order = Order::new(sequences.len(), self.settings.sequences, self.settings.seed);
        let step = found.as_ref().map_or(0, |checkpoint| checkpoint.counts.step);
        folder::claim(self.folder, self.settings)?;
        let log = Log::open(self.folder, self.settings.block - 1, step as u64)?;
        let mut course = Course { trainer, order, log, counts: Counts::default(), times: Vec::new() };
        if let Some(checkpoint) = found {
            course.trainer.restore(&checkpoint.state)?;
            course.counts = checkpoint.counts;
            observer.note(&format!("going on after step {step}"));
        }
        Ok(course)
    }

    /// Shape and weights of a new run.
    fn beginning(
        &self,
        sequences: &[Sequence],
        observer: &mut dyn Observer,
    ) -> Result<(DraftShape, DraftWeights), TrainError> {
        let settings = self.settings;
        let ids = self.target.spec().vocab;
        if settings.mask_id as usize >= ids {
            let what = format!(
                "the target has no id {} for --mask-id: its ids are 0 to {}",
                settings.mask_id,
                ids - 1
            );
            return Err(TrainError::Refused(what));
        }
        let mut shape = DraftShape::like(self.target, settings.layers, settings.block, settings.mask_id);
        if let Some(taps) = &settings.taps {
            shape.taps.clone_from(taps);
        }
        shape.markov_rank = settings.markov_rank;
        shape.vocab = vocabulary::vocabulary(sequences, settings.vocab);
        let layers = match &settings.start {
            Start::Target(layers) => layers.as_slice(),
            Start::Random => &[],
            Start::Draft(path) => return self.other_draft(path, &shape),
        };
        let initial = init_from_layers(self.target, &shape, layers, settings.seed)?;
        initial.notes.iter().for_each(|note| observer.note(note));
        Ok((shape, initial.weights))
    }

    /// The weights of another draft. Its vocabulary stays its own.
    fn other_draft(
        &self,
        path: &Path,
        wished: &DraftShape,
    ) -> Result<(DraftShape, DraftWeights), TrainError> {
        let path = last_draft(path)?.unwrap_or_else(|| path.to_owned());
        let (mut shape, weights) = read_zlab(&path)?;
        shape.block = wished.block;
        let same = DraftShape { vocab: wished.vocab.clone(), ..shape.clone() };
        if same != *wished {
            return Err(TrainError::bad(&path, other_shape(&same, wished)));
        }
        Ok((shape, weights))
    }

    fn trainer(&self, shape: DraftShape, weights: &DraftWeights) -> Result<Trainer, TrainError> {
        let settings = self.settings;
        let all: Vec<u32> = (0..shape.target_vocab as u32).collect();
        let tables = TargetTables::read(self.target, &all, shape.vocab.as_deref().unwrap_or(&all));
        let warmup = (settings.warmup * settings.steps as f64).ceil() as usize;
        let options = TrainerOptions {
            schedule: Schedule { peak: settings.learning_rate, warmup, steps: settings.steps },
            adam: AdamW { weight_decay: settings.weight_decay, ..AdamW::default() },
            clip: settings.clip,
            precision: Precision::Bf16,
        };
        Trainer::new(shape, weights, &tables, options, self.device.clone())
    }

    fn evaluate(
        &self,
        course: &mut Course,
        held_out: &[Sequence],
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let draft = last_draft(self.folder)?;
        let Some(draft) = draft.filter(|_| !held_out.is_empty()) else { return Ok(()) };
        let options = EvaluateOptions { block: self.settings.block, ..EvaluateOptions::default() };
        let target = (self.load)()?;
        let evaluation = evaluate(target, &draft, held_out, self.stop_ids, &options, &mut |done| {
            observer.answered(done, held_out.len());
            !(self.ended)()
        });
        let evaluation = match evaluation {
            // It is made up when the run goes on.
            Err(TrainError::Ended) => return Ok(()),
            evaluation => evaluation?,
        };
        let evaluation = EvaluationLog::new(course.counts.step as u64, course.counts.tokens, &evaluation);
        observer.evaluated(&evaluation);
        course.log.evaluation(evaluation)
    }
}

/// What a draft to start with has that is not wished for.
fn other_shape(has: &DraftShape, wished: &DraftShape) -> String {
    let differs = |flag: &str, has: String, wished: String| {
        (has != wished).then(|| format!("{flag} is {has} there and {wished} here"))
    };
    let all = [
        differs("--layers", has.layers.to_string(), wished.layers.to_string()),
        differs("--taps", format!("{:?}", has.taps), format!("{:?}", wished.taps)),
        differs("--mask-id", has.mask_id.to_string(), wished.mask_id.to_string()),
        differs("--markov-rank", has.markov_rank.to_string(), wished.markov_rank.to_string()),
    ];
    match all.into_iter().flatten().collect::<Vec<_>>() {
        all if all.is_empty() => "is a draft for another target".into(),
        all => format!("is a draft of another shape: {}; give these as it has them", all.join(", ")),
    }
}

/// Where a run is.
struct Course {
    trainer: Trainer,
    order: Order,
    log: Log,
    counts: Counts,
    /// When the last steps ended.
    times: Vec<Instant>,
}

impl Course {
    fn step(
        &mut self,
        run: &Run<'_>,
        sequences: &[Sequence],
        features: &Features<'_>,
    ) -> Result<StepLog, TrainError> {
        let began = Instant::now();
        let chosen = self.order.of(self.counts.step).to_vec();
        let batch = batch(run.settings, self.trainer.shape(), self.counts.step, &chosen, sequences, features);
        let report = self.trainer.step(&batch)?;
        self.counts.step += 1;
        self.counts.tokens += chosen.iter().map(|&index| sequences[index].answer().len() as u64).sum::<u64>();
        self.counts.seconds += began.elapsed().as_secs_f64();
        let step = self.told(run.settings, &report);
        self.log.step(step.clone())?;
        Ok(step)
    }

    fn told(&mut self, settings: &RunSettings, report: &StepReport) -> StepLog {
        self.times.push(Instant::now());
        self.times.drain(..self.times.len().saturating_sub(PACE + 1));
        let (first, last) = (self.times[0], self.times[self.times.len() - 1]);
        let seconds = (last - first).as_secs_f64();
        let accuracy = report.measure.right.iter().zip(&report.measure.known);
        StepLog {
            step: self.counts.step as u64,
            steps: settings.steps as u64,
            epoch: self.counts.step as f64 / self.order.steps() as f64,
            tokens: self.counts.tokens,
            loss: report.measure.loss,
            accuracy: accuracy.map(|(&right, &known)| right as f64 / known.max(1) as f64).collect(),
            grad_norm: report.grad_norm,
            lr: report.rate,
            steps_per_s: if seconds > 0.0 { (self.times.len() - 1) as f64 / seconds } else { 0.0 },
            seconds: self.counts.seconds,
        }
    }

    fn checkpoint(&self) -> Result<Checkpoint, TrainError> {
        let (shape, state) = (self.trainer.shape().clone(), self.trainer.state()?);
        Ok(Checkpoint { shape, state, counts: self.counts })
    }
}

/// What step `step` learns from.
fn batch(
    settings: &RunSettings,
    shape: &DraftShape,
    step: usize,
    chosen: &[usize],
    sequences: &[Sequence],
    features: &Features<'_>,
) -> Batch {
    let rows: Vec<_> = chosen.iter().map(|&index| parted(features, index, shape.features())).collect();
    let samples = chosen.iter().zip(&rows).map(|(&index, (features, last))| {
        let Sequence { ids, prompt, .. } = &sequences[index];
        Sample { ids, prompt: *prompt, features, last }
    });
    let samples: Vec<_> = samples.collect();
    let mut anchors = Anchors::new(settings.seed, step as u64);
    Batch::draw(&samples, shape, blocks(settings, step), &mut anchors)
}

/// Blocks of a step. Three steps of four train twice as many blocks of half the length: all stands or falls with the first
/// positions, and where long blocks do not pay the runtime drafts short ones.
fn blocks(settings: &RunSettings, step: usize) -> BatchOptions {
    let &RunSettings { block, anchors, gamma: decay, .. } = settings;
    match block / 2 {
        half if half > 1 && step % 4 != 3 => BatchOptions { block: half, anchors: 2 * anchors, decay },
        _ => BatchOptions { block, anchors, decay },
    }
}

/// The rows of a sequence, and what the target's last layer holds there: the columns from `width` on.
fn parted(features: &Features<'_>, index: usize, width: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut rows, mut parts) = (Vec::new(), (Vec::new(), Vec::new()));
    features.rows(index, &mut rows);
    for row in rows.chunks_exact(features.width()) {
        let (taps, last) = row.split_at(width);
        parts.0.extend_from_slice(taps);
        parts.1.extend_from_slice(last);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(block: usize) -> RunSettings {
        RunSettings {
            model: String::new(),
            data: String::new(),
            layers: 1,
            block,
            taps: None,
            vocab: 0,
            markov_rank: 0,
            mask_id: 0,
            start: Start::Random,
            steps: 8,
            sequences: 1,
            anchors: 32,
            gamma: 4.0,
            learning_rate: 1e-3,
            warmup: 0.0,
            weight_decay: 0.0,
            clip: 1.0,
            held_out: 0,
            evaluate_every: 1,
            seed: 0,
        }
    }

    #[test]
    fn three_steps_of_four_have_twice_as_many_blocks_of_half_the_length() {
        let sizes = |block, step| {
            let BatchOptions { block, anchors, .. } = blocks(&settings(block), step);
            (block, anchors)
        };
        assert_eq!([0, 1, 2, 3, 4, 7].map(|step| sizes(8, step).0), [4, 4, 4, 8, 4, 8]);
        assert_eq!((sizes(8, 0), sizes(8, 3)), ((4, 64), (8, 32)));
        assert_eq!([0, 3].map(|step| sizes(3, step)), [(3, 32); 2], "half of it would have no slot");
    }
}
