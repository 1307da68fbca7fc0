//! A draft from nothing: a tiny target answers, a draft learns from it for 200 steps, and then it drafts.

mod common;

use std::path::Path;

use dflash_engine::{Decoder, DecoderOptions, EngineHandle, EngineOptions, Event, Request, VerifyMode};
use dflash_models::Target;
use dflash_testkit::{Rng, TinyLlama};
use dflash_train::evaluate::{EvaluateOptions, evaluate};
use dflash_train::graph::Device;
use dflash_train::live::{EvaluationLog, Progress, StepLog};
use dflash_train::run::{Observer, Run, RunSettings, Start, last_draft};
use dflash_train::{Sequence, TrainError};

const VOCAB: u32 = 97;
const STEPS: usize = 200;
/// So many times the tokens per cycle of the draft before training.
const FACTOR: f64 = 1.25;

/// Greedy answers of the target to random prompts.
fn sequences(target: Box<dyn Target>) -> Vec<Sequence> {
    let options = DecoderOptions { prefill_chunk: 64, block: 8, verify_cap: 0, mode: VerifyMode::Off };
    let engine = EngineHandle::start(
        Decoder::new(target, Vec::new(), options),
        EngineOptions { max_batch: 16, waiting: 200, step_rows: None, prefix: None },
    );
    let mut rng = Rng::new(5);
    let prompts: Vec<Vec<u32>> =
        (0..150).map(|_| (0..4).map(|_| 3 + rng.below(VOCAB - 3)).collect()).collect();
    let answers: Vec<_> =
        prompts.iter().map(|prompt| engine.submit(Request::new(prompt.clone(), 40)).unwrap()).collect();
    let sequence = |(source, (prompt, answer)): (usize, (Vec<u32>, dflash_engine::Submission))| {
        let ids = answer.filter_map(|event| if let Event::Tokens(ids) = event { Some(ids) } else { None });
        let (length, ids) = (prompt.len(), prompt.into_iter().chain(ids.flatten()).collect());
        Sequence { source: source as u64, category: "tiny".into(), ids, prompt: length }
    };
    prompts.into_iter().zip(answers).enumerate().map(sequence).collect()
}

fn settings(steps: usize) -> RunSettings {
    RunSettings {
        model: "tiny".into(),
        data: "tiny".into(),
        layers: 1,
        block: 8,
        taps: Some(vec![0, 1]),
        vocab: 0,
        markov_rank: 0,
        mask_id: 1,
        start: Start::Target(vec![1]),
        steps,
        sequences: 4,
        anchors: 16,
        gamma: 4.0,
        learning_rate: 4e-3,
        warmup: 0.04,
        weight_decay: 0.01,
        clip: 1.0,
        held_out: 16,
        evaluate_every: STEPS,
        seed: 1,
    }
}

#[derive(Default)]
struct Seen {
    losses: Vec<f64>,
    per_cycle: Vec<f64>,
}

impl Observer for Seen {
    fn note(&mut self, _: &str) {}

    fn features(&mut self, _: &Progress) {}

    fn step(&mut self, step: &StepLog) {
        self.losses.push(step.loss);
    }

    fn answered(&mut self, _: usize, _: usize) {}

    fn evaluated(&mut self, evaluation: &EvaluationLog) {
        self.per_cycle.push(evaluation.all.tokens_per_cycle);
    }
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        TinyLlama { vocab: VOCAB as usize, ..TinyLlama::default() }.write(&place.path("target"));
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn target(&self) -> Result<Box<dyn Target>, TrainError> {
        Ok(common::target(&self.path("target")))
    }

    /// Trains until the step `until`.
    fn train(&self, folder: &Path, settings: &RunSettings, sequences: &[Sequence], until: usize) -> Seen {
        self.try_train(folder, settings, sequences, until).unwrap()
    }

    fn try_train(
        &self,
        folder: &Path,
        settings: &RunSettings,
        sequences: &[Sequence],
        until: usize,
    ) -> Result<Seen, TrainError> {
        let target = self.target().unwrap();
        let mut seen = Seen::default();
        let run = Run {
            target: target.as_ref(),
            load: &|| self.target(),
            stop_ids: &[],
            cache: None,
            device: Device::Cpu,
            settings,
            folder,
            ended: &|| {
                std::fs::read_to_string(folder.join("log.jsonl"))
                    .is_ok_and(|log| log.lines().count() >= until)
            },
        };
        run.train(sequences.to_vec(), &mut seen)?;
        Ok(seen)
    }
}

#[test]
fn a_draft_learns_from_its_target() {
    let place = Place::new();
    let sequences = sequences(place.target().unwrap());
    let folder = place.path("run");
    let seen = place.train(&folder, &settings(STEPS), &sequences, usize::MAX);
    assert_eq!(seen.losses.len(), STEPS);
    // Step 1 of a run with a rate of nearly nothing is the draft before training.
    let untrained = place.path("untrained");
    let first = RunSettings { learning_rate: 1e-12, evaluate_every: 1, ..settings(1) };
    let before = place.train(&untrained, &first, &sequences, usize::MAX).per_cycle[0];
    let after = seen.per_cycle[0];
    assert!(after >= FACTOR * before, "{before} tokens per cycle before, {after} after");

    // What is in the folder drafts as well, and answers as plain decoding does.
    let draft = last_draft(&folder).unwrap().unwrap();
    let options = EvaluateOptions { max_tokens: 24, against_plain: true, ..EvaluateOptions::default() };
    let again =
        evaluate(place.target().unwrap(), &draft, &sequences[..8], &[], &options, &mut |_| true).unwrap();
    assert!(again.all.tokens_per_cycle() > before);
}

#[test]
fn an_interrupted_run_gives_the_same_draft() {
    let place = Place::new();
    let sequences = sequences(place.target().unwrap());
    let settings = settings(12);
    let (whole, parts) = (place.path("whole"), place.path("parts"));
    let one = place.train(&whole, &settings, &sequences, usize::MAX);
    let first = place.train(&parts, &settings, &sequences, 5);
    assert_eq!(first.losses.len(), 5);
    let second = place.train(&parts, &settings, &sequences, usize::MAX);
    assert_eq!([first.losses, second.losses].concat(), one.losses);
    let weights =
        |run: &Path| std::fs::read(last_draft(run).unwrap().unwrap().join("model.safetensors")).unwrap();
    assert!(weights(&whole) == weights(&parts), "the weights differ");
}

#[test]
fn a_folder_is_of_one_run() {
    let place = Place::new();
    let sequences = sequences(place.target().unwrap());
    let refusal = |folder: &str, settings: &RunSettings, sequences: &[Sequence]| {
        let refused = place.try_train(&place.path(folder), settings, sequences, usize::MAX);
        refused.err().expect("a refusal").to_string()
    };
    place.train(&place.path("run"), &settings(2), &sequences, usize::MAX);
    let other = refusal("run", &RunSettings { anchors: 3, ..settings(2) }, &sequences);
    assert!(other.contains("anchors is 16 there"), "{other}");

    // What cannot be trained leaves a folder that is free for what can.
    let wrong = RunSettings { mask_id: VOCAB, ..settings(1) };
    assert!(refusal("new", &wrong, &sequences).contains("--mask-id"));
    assert!(refusal("new", &settings(1), &[]).contains("no sequence"));
    let foreign = Sequence { ids: vec![1, 2, VOCAB], ..sequences[0].clone() };
    assert!(refusal("new", &settings(1), &[foreign]).contains("not from this target"));
    place.train(&place.path("new"), &settings(1), &sequences, usize::MAX);
}
