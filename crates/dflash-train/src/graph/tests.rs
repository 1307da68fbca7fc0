//! Gradients against finite differences, what a block may see, and runs that go on.

use candle_core::{Device, Tensor};

use super::head::Outcome;
use super::ops::check::random;
use super::*;
use crate::batch::{Anchors, Batch, BatchOptions, Sample};
use crate::normal::Normal;
use crate::{DraftShape, DraftWeights, Matrix, TargetTables};

const IDS: u32 = 31;

fn shape(layers: usize, markov_rank: usize) -> DraftShape {
    DraftShape {
        hidden: 16,
        layers,
        ffn: 20,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        rms_norm_eps: 1e-5,
        rope_theta: 100.0,
        context: 64,
        block: 4,
        mask_id: 3,
        taps: vec![2, 0],
        target_layers: 3,
        target_vocab: IDS as usize,
        vocab: Some((0..IDS).filter(|id| id % 5 != 1).collect()),
        markov_rank,
    }
}

fn matrix(shape: &[usize], scale: f32, normal: &mut Normal) -> Matrix {
    let values = (0..shape.iter().product()).map(|_| scale * normal.draw()).collect();
    Matrix { shape: shape.to_vec(), values }
}

fn weights(shape: &DraftShape) -> DraftWeights {
    let mut normal = Normal::new(5);
    let tensors = shape.tensors().into_iter();
    tensors.map(|(name, sizes)| (name, matrix(&sizes, 0.4, &mut normal))).collect()
}

fn trainer(shape: &DraftShape, rate: f64) -> Trainer {
    let mut normal = Normal::new(6);
    let tables = TargetTables {
        embedding: matrix(&[shape.target_vocab, shape.hidden], 1.0, &mut normal),
        head: matrix(&[shape.vocab_len(), shape.hidden], 0.5, &mut normal),
        norm: Some(matrix(&[shape.hidden], 1.0, &mut Normal::new(7)).values),
        softcap: Some(2.0),
    };
    let schedule = Schedule { peak: rate, warmup: 3, steps: 200 };
    let options = TrainerOptions { schedule, adam: AdamW::default(), clip: 1.0, precision: Precision::F32 };
    Trainer::new(shape.clone(), &weights(shape), &tables, options, Device::Cpu).unwrap()
}

/// Sequences that follow a rule, with random features.
struct Text {
    ids: Vec<u32>,
    features: Vec<f32>,
}

impl Text {
    fn new(seed: u64, shape: &DraftShape) -> Self {
        let ids: Vec<u32> = (0..20).map(|place| (seed as u32 + place * place) % IDS).collect();
        let features = matrix(&[ids.len() - 1, shape.features()], 1.0, &mut Normal::new(seed)).values;
        Self { ids, features }
    }

    fn sample(&self) -> Sample<'_> {
        Sample { ids: &self.ids, prompt: 4, features: &self.features, last: &[] }
    }
}

fn batch(shape: &DraftShape, step: u64) -> Batch {
    let texts = [1, 2, 3].map(|seed| Text::new(seed, shape));
    let samples = texts.each_ref().map(Text::sample);
    let options = BatchOptions { block: shape.block, anchors: 6, decay: 2.0 };
    Batch::draw(&samples, shape, options, &mut Anchors::new(9, step))
}

fn loss(trainer: &Trainer, batch: &Batch) -> f64 {
    trainer.measure(batch).unwrap().loss
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for (shape, soft) in [(shape(1, 0), true), (shape(3, 5), false), (shape(2, 4), true)] {
        let trainer = trainer(&shape, 0.0);
        let mut batch = batch(&shape, 0);
        if soft {
            let rows = [batch.labels.len(), shape.hidden];
            batch.last = matrix(&rows, 1.0, &mut Normal::new(8)).values;
        }
        for (index, grad) in trainer.gradients(&batch).unwrap().into_iter().enumerate() {
            let parameter = &trainer.parameters().all[index];
            let (var, name) = (&parameter.var, parameter.name());
            let start = var.as_tensor().copy().unwrap();
            let norm = grad.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap().sqrt();
            assert!(norm > 1e-4, "{name} has a gradient of {norm}");
            let random = random(grad.dims(), index as u64).unwrap();
            for direction in [(&grad / f64::from(norm)).unwrap(), (random * 0.2).unwrap()] {
                let along = (&grad * &direction).unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
                let step = 0.01;
                let at = |step: f64| {
                    var.set(&(&start + (&direction * step).unwrap()).unwrap()).unwrap();
                    loss(&trainer, &batch)
                };
                let found = (at(step) - at(-step)) / (2.0 * step);
                let off = (found - f64::from(along)).abs();
                assert!(off < 0.01 * f64::from(norm) + 2e-4, "{name}: {along}, by differences {found}");
            }
            var.set(&start).unwrap();
        }
    }
}

/// The outcomes of a batch with a block at each of `anchors` of one text.
fn outcomes(trainer: &Trainer, text: &Text, anchors: &[usize]) -> Vec<Outcome> {
    let mut batch = Batch::new(4, 2.0);
    batch.push(&text.sample(), trainer.shape(), anchors);
    trainer.outcomes(&batch).unwrap()
}

fn assert_close(one: &[Outcome], other: &[Outcome]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert!((one.loss - other.loss).abs() < 1e-5, "{one:?} and {other:?}");
    }
}

#[test]
fn a_block_sees_its_context_and_itself_alone() {
    let shape = shape(2, 0);
    let trainer = trainer(&shape, 0.0);
    let text = Text { ids: (0..20).map(|place| place * 5 % 30).collect(), ..Text::new(1, &shape) };
    let alone = outcomes(&trainer, &text, &[8]);
    assert_eq!(alone.len(), 3);
    let own = |outcomes: Vec<Outcome>| outcomes[3..6].to_vec();
    assert_close(&own(outcomes(&trainer, &text, &[5, 8, 9, 12])), &alone);

    let mut later = Text { ids: text.ids.clone(), features: text.features.clone() };
    later.ids[12..].fill(7);
    later.features[8 * shape.features()..].fill(9.0);
    assert_close(&own(outcomes(&trainer, &later, &[5, 8, 9, 12])), &alone);

    later.features[7 * shape.features()] += 1.0;
    let changed = outcomes(&trainer, &later, &[8]);
    assert!(changed.iter().zip(&alone).all(|(one, other)| (one.loss - other.loss).abs() > 1e-5));
}

#[test]
fn a_markov_head_adds_to_the_logits() {
    let (plain, shape) = (shape(2, 0), shape(2, 5));
    let (mut with, batch) = (weights(&shape), batch(&shape, 1));
    with.get_mut("markov_head.markov_w2.weight").unwrap().values.fill(0.0);
    let mut trainer = trainer(&shape, 0.0);
    let state = |weights: DraftWeights| {
        let zeros = |matrix: &Matrix| Matrix { values: vec![0.0; matrix.values.len()], ..matrix.clone() };
        let zeros: DraftWeights =
            weights.iter().map(|(name, matrix)| (name.clone(), zeros(matrix))).collect();
        TrainState { step: 0, means: zeros.clone(), squares: zeros, weights }
    };
    trainer.restore(&state(with.clone())).unwrap();
    let without = self::trainer(&plain, 0.0).outcomes(&batch).unwrap();
    assert_close(&trainer.outcomes(&batch).unwrap(), &without);

    // A table that makes every id be followed by the next one of the draft's.
    let (w1, w2) = (&mut Vec::new(), &mut Vec::new());
    for id in 0..IDS {
        w1.extend([0.0, 0.0, 0.0, id as f32, 1.0]);
    }
    for row in 0..shape.vocab_len() {
        let id = shape.vocab.as_ref().unwrap()[row] as f32 - 1.0;
        w2.extend([0.0, 0.0, 0.0, 200.0 * id, -100.0 * id * id]);
    }
    with.get_mut("markov_head.markov_w1.weight").unwrap().values = w1.clone();
    with.get_mut("markov_head.markov_w2.weight").unwrap().values = w2.clone();
    trainer.restore(&state(with)).unwrap();
    let text = Text { ids: (2..22).collect(), ..Text::new(1, &shape) };
    let mut batch = Batch::new(4, 2.0);
    batch.push(&text.sample(), &shape, &[5, 9, 13]);
    let measure = trainer.measure(&batch).unwrap();
    let proposable = batch.labels.iter().flatten().count();
    assert_eq!(measure.right.iter().sum::<usize>(), proposable, "{measure:?}");
}

#[test]
fn a_run_that_goes_on_is_the_run_that_never_stopped() {
    let shape = shape(2, 4);
    let mut run = trainer(&shape, 0.01);
    (0..4).for_each(|step| drop(run.step(&batch(&shape, step)).unwrap()));
    let state = run.state().unwrap();
    let mut again = trainer(&shape, 0.01);
    again.restore(&state).unwrap();
    for step in 4..8 {
        let batch = batch(&shape, step);
        assert_eq!(run.step(&batch).unwrap(), again.step(&batch).unwrap(), "step {step}");
    }
    assert_eq!(run.state().unwrap(), again.state().unwrap());
    assert_ne!(run.weights().unwrap(), state.weights);
}

#[test]
fn a_markov_head_learns_at_four_times_the_rate() {
    let shape = shape(1, 4);
    let mut trainer = trainer(&shape, 0.01);
    let before = trainer.weights().unwrap();
    let rate = trainer.step(&batch(&shape, 0)).unwrap().rate;
    let after = trainer.weights().unwrap();
    // The first step of Adam is as long as the rate, and the decay a hundredth of what is there.
    for (name, times) in [("layers.0.mlp.down_proj.weight", 1.0), ("markov_head.markov_w2.weight", 4.0)] {
        let moved =
            before[name].values.iter().zip(&after[name].values).map(|(a, b)| f64::from((a - b).abs()));
        let most = moved.fold(0.0, f64::max);
        assert!((most / rate - times).abs() < 0.1 * times, "{name}: {most} at {rate}");
    }
}

#[test]
fn training_learns_what_is_to_be_learned() {
    let shape = shape(2, 0);
    let mut trainer = trainer(&shape, 0.02);
    let first = trainer.measure(&batch(&shape, 0)).unwrap();
    (0..150).for_each(|step| drop(trainer.step(&batch(&shape, step)).unwrap()));
    let last = trainer.measure(&batch(&shape, 0)).unwrap();
    assert!(last.loss < 0.3 * first.loss, "{} to {}", first.loss, last.loss);
    assert!(last.tokens_per_cycle() > 1.5 * first.tokens_per_cycle(), "{first:?} {last:?}");
}

#[test]
fn batches_without_labels_change_nothing() {
    let shape = shape(1, 0);
    let mut trainer = trainer(&shape, 0.1);
    let before = trainer.weights().unwrap();
    let text = Text { ids: vec![1; 20], ..Text::new(1, &shape) };
    let mut batch = Batch::new(4, 2.0);
    for batch in [&batch.clone(), {
        batch.push(&text.sample(), &shape, &[4, 18]);
        &batch
    }] {
        let report = trainer.step(batch).unwrap();
        assert_eq!((report.measure.loss, report.grad_norm), (0.0, 0.0));
    }
    assert_eq!(trainer.measure(&batch).unwrap().known, [2, 1, 1]);
    assert_eq!((trainer.steps(), trainer.weights().unwrap()), (2, before));
}

#[test]
fn what_does_not_fit_is_named() {
    let shape = shape(1, 0);
    let mut short = weights(&shape);
    short.remove("layers.0.self_attn.v_proj.weight");
    let mut state = trainer(&shape, 0.1).state().unwrap();
    state.weights = short;
    let error = trainer(&shape, 0.1).restore(&state).unwrap_err().to_string();
    assert!(error.contains("layers.0.self_attn.v_proj.weight"), "{error}");
    let other = DraftShape { ffn: 24, ..shape.clone() };
    let state = trainer(&other, 0.1).state().unwrap();
    let error = trainer(&shape, 0.1).restore(&state).unwrap_err().to_string();
    assert!(error.contains("layers.0.mlp") && error.contains("24"), "{error}");
    let infinite = Tensor::new(f32::INFINITY, &Device::Cpu).unwrap();
    let mut trainer = trainer(&shape, 0.1);
    let var = &trainer.parameters().norm;
    var.set(&infinite.broadcast_as(var.shape()).unwrap().contiguous().unwrap()).unwrap();
    let error = trainer.step(&batch(&shape, 0)).unwrap_err().to_string();
    assert!(error.contains("no numbers"), "{error}");
}
