use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use dflash_cpu::CpuBackend;
use dflash_models::{Target, load_target};
use dflash_train::data::{Shard, shards};
use dflash_train::graph::Device;
use dflash_train::live::{EvaluationLog, Progress as Features, StepLog};
use dflash_train::run::{Observer, Run, RunSettings, Start, last_draft};
use dflash_train::{FeatureCache, Sequence, TrainError};

use super::data::{failure, target};
use super::meter::Meter;
use super::{RecipeArgs, RunArgs, ShapeArgs};
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};
use crate::text::TextPipeline;

/// Share of the steps in which the learning rate rises (arXiv 2602.06036).
const WARMUP: f64 = 0.04;
const WEIGHT_DECAY: f64 = 0.01;
const CLIP: f64 = 1.0;

/// `dflash train run`
pub(super) fn run(args: &RunArgs, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    let loaded = target(&args.target, env, progress)?;
    let sequences = sequences(&args.data)?;
    let path = loaded.info.target_path.clone();
    let load = || again(&path, &loaded.backend, loaded.decoder.target().spec().vocab);
    let model = load().map_err(failure)?;
    let settings = settings(args, &sequences, &loaded.text, model.as_ref())?;
    let cache = args.features.as_deref().map(|folder| FeatureCache::new(folder, None)).transpose();
    let cache = cache.map_err(failure)?;
    let (interrupt, _caught) = Interrupt::catch();
    let run = Run {
        target: model.as_ref(),
        load: &load,
        stop_ids: &loaded.stop_ids,
        cache: cache.as_ref(),
        device: device()?,
        settings: &settings,
        folder: &args.out,
        ended: &|| interrupt.is_asked(),
    };
    run.train(sequences, &mut Display(Meter::new(progress), progress)).map_err(failure)?;
    if interrupt.is_asked() {
        say(format_args!("the same command goes on from here: {}", args.out.display()));
        return Err(Failure::interrupted());
    }
    if let Some(draft) = last_draft(&args.out).map_err(failure)? {
        say(format_args!("the draft is in {}; try it with --draft, or write it with", draft.display()));
        say(format_args!("  dflash train export {} --out DIR", args.out.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person sees.
struct Display(Meter, Progress);

impl Observer for Display {
    fn note(&mut self, text: &str) {
        self.1.note(text);
    }

    fn features(&mut self, features: &Features) {
        let left = features.left().map_or(0, |left| left.as_secs().div_ceil(60));
        let Features { done, total, .. } = features;
        let pace = features.per_second();
        self.0.show(&format!("features: {done} of {total} tokens | {pace:.0} tok/s | {left} min left"));
    }

    fn step(&mut self, step: &StepLog) {
        self.0.show(step);
    }

    fn evaluated(&mut self, evaluation: &EvaluationLog) {
        self.1.note(&evaluation.to_string());
    }
}

fn again(path: &Path, backend: &Arc<CpuBackend>, vocab: usize) -> Result<Box<dyn Target>, TrainError> {
    let mut target = load_target(path, Arc::clone(backend) as _, &mut |_, _| {})?.target;
    target.limit_vocab(vocab);
    Ok(target)
}

fn sequences(folders: &[PathBuf]) -> Outcome<Vec<Sequence>> {
    let mut all = Vec::new();
    for folder in folders {
        let paths = shards(folder).map_err(failure)?;
        if paths.is_empty() {
            return Err(Failure::new(format!("{} holds no answers", folder.display()))
                .hint(format!("make some with dflash train data --out {}", folder.display())));
        }
        for path in paths {
            all.extend(Shard::read(&path).map_err(failure)?.sequences);
        }
    }
    Ok(all)
}

fn settings(
    args: &RunArgs,
    sequences: &[Sequence],
    text: &TextPipeline,
    target: &dyn Target,
) -> Outcome<RunSettings> {
    let (shape, recipe): (&ShapeArgs, &RecipeArgs) = (&args.draft, &args.recipe);
    let trained = sequences.len().saturating_sub(recipe.held_out).max(1);
    let by_epochs = recipe.epochs * trained as f64 / recipe.sequences as f64;
    let mask_id = match shape.mask_id {
        Some(id) => id,
        None => unused_special(sequences, text)?,
    };
    Ok(RunSettings {
        layers: shape.layers,
        block: shape.block,
        taps: shape.taps.clone(),
        vocab: shape.vocab,
        markov_rank: shape.markov_rank,
        mask_id,
        start: start(&shape.start, shape.layers, target.spec().layers),
        steps: recipe.steps.unwrap_or(by_epochs.ceil().max(1.0) as usize),
        sequences: recipe.sequences,
        anchors: recipe.anchors,
        gamma: recipe.gamma.unwrap_or(if shape.block > 8 { 7.0 } else { 4.0 }),
        learning_rate: recipe.learning_rate,
        warmup: WARMUP,
        weight_decay: WEIGHT_DECAY,
        clip: CLIP,
        held_out: recipe.held_out,
        evaluate_every: recipe.evaluate_every,
        seed: recipe.seed,
    })
}

/// The last layers of the target but one apart, as the baseline took them: 25, 27, 29 of 30.
fn start(word: &str, layers: usize, target_layers: usize) -> Start {
    match word {
        "target" => Start::Target(
            (1..=layers).rev().map(|back| (target_layers + 1).saturating_sub(2 * back)).collect(),
        ),
        "random" => Start::Random,
        path => Start::Draft(path.into()),
    }
}

/// The last control token that no sequence holds: nothing else is meant by its embedding.
fn unused_special(sequences: &[Sequence], text: &TextPipeline) -> Outcome<u32> {
    let tokenizer = text.tokenizer();
    let used: std::collections::HashSet<u32> =
        sequences.iter().flat_map(|sequence| sequence.ids.iter().copied()).collect();
    let free =
        (0..tokenizer.vocab_len() as u32).rev().find(|&id| tokenizer.is_special(id) && !used.contains(&id));
    free.ok_or_else(|| {
        Failure::new("the model has no control token that is free to stand for positions to be filled")
            .hint("name an id that never appears in answers with --mask-id")
    })
}

/// What trains: a GPU in builds for one, else the CPU.
fn device() -> Outcome<Device> {
    let device = if cfg!(feature = "train-cuda") {
        Device::new_cuda(0)
    } else if cfg!(feature = "train-metal") {
        Device::new_metal(0)
    } else {
        Ok(Device::Cpu)
    };
    device.map_err(|error| Failure::new("the GPU that this build is for cannot be used").cause(error))
}
