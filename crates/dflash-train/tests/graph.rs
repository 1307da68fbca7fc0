//! The graph that is trained is the draft that decodes.

mod common;

use common::{sequence, target};
use dflash_models::{Draft, DraftOptions};
use dflash_testkit::{Rng, TinyDraft, TinyLlama};
use dflash_train::batch::{Batch, Sample};
use dflash_train::export::read_zlab;
use dflash_train::graph::{AdamW, Device, Precision, Schedule, Trainer, TrainerOptions};
use dflash_train::{DraftShape, TargetTables};

/// The runtime stores keys and values as f16.
const TOLERANCE: f64 = 0.01;

#[test]
fn losses_are_those_of_the_runtime_s_logits() {
    let dir = tempfile::tempdir().unwrap();
    let model = TinyLlama::default();
    let target = target(&model.write(&dir.path().join("target")));
    for layers in [1, 3] {
        let path = TinyDraft { layers, ..TinyDraft::default() }.write(&dir.path().join("draft"), &model);
        let (shape, weights) = read_zlab(&path).unwrap();
        let ids: Vec<u32> = (0..shape.target_vocab as u32).collect();
        let tables = TargetTables::read(target.as_ref(), &ids, &ids);
        let schedule = Schedule { peak: 0.0, warmup: 0, steps: 1 };
        let options =
            TrainerOptions { schedule, adam: AdamW::default(), clip: 1.0, precision: Precision::F32 };
        let trainer = Trainer::new(shape.clone(), &weights, &tables, options, Device::Cpu).unwrap();

        let text = sequence(4, 40, model.vocab as u32);
        let features = Rng::new(8).bells(39 * shape.features(), 2.0);
        let sample = Sample { ids: &text.ids, prompt: 10, features: &features, last: &[] };
        let draft = Draft::load(&path, target.as_ref(), DraftOptions::default()).unwrap();
        for anchor in [10, 25, 31] {
            let wanted = runtime_losses(&draft, target.as_ref(), &shape, &sample, anchor);
            let mut batch = Batch::new(shape.block, 4.0);
            batch.push(&sample, &shape, &[9, anchor, 37]);
            let block = shape.block - 1;
            batch.labels[..block].fill(None);
            batch.labels[2 * block..].fill(None);
            for (slot, wanted) in wanted.iter().enumerate() {
                let mut one = batch.clone();
                one.weights.fill(0.0);
                one.weights[slot] = 1.0;
                let found = trainer.measure(&one).unwrap().loss;
                assert!(
                    (found - wanted).abs() < TOLERANCE,
                    "anchor {anchor}, slot {slot}: {found} and {wanted}"
                );
            }
        }
    }
}

/// Cross entropy of the true id at each slot.
fn runtime_losses(
    draft: &Draft,
    target: &dyn dflash_models::Target,
    shape: &DraftShape,
    sample: &Sample<'_>,
    anchor: usize,
) -> Vec<f64> {
    let backend = target.backend();
    let mut rows = backend.tensor(anchor, shape.features());
    for (row, values) in sample.features.chunks_exact(shape.features()).take(anchor).enumerate() {
        backend.write(&mut rows, row, values);
    }
    rows.set_rows(anchor);
    let (mut ws, mut state) = (draft.workspace(), draft.new_state());
    draft.observe(&mut ws, &mut state, &rows, 0..anchor, 0);
    let mut logits = draft.logit_rows();
    draft.logits(&mut ws, &mut [&mut state], &[sample.ids[anchor]], shape.block, &mut logits);
    let loss = |slot: usize| {
        let mut row = Vec::new();
        draft.target_logits(&logits, slot, &mut row);
        let sum: f64 = row.iter().map(|&value| f64::from(value).exp()).sum();
        sum.ln() - f64::from(row[sample.ids[anchor + slot + 1] as usize])
    };
    (0..shape.block - 1).map(loss).collect()
}
