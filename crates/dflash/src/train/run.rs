use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use dflash_cpu::CpuBackend;
use dflash_models::{Target, load_target};
use dflash_train::data::{Manifest, Shard, shards};
use dflash_train::graph::Device;
use dflash_train::live::{EvaluationLog, Progress as Features, StepLog};
use dflash_train::run::{Observer, Run, RunSettings, Start, last_draft, steps};
use dflash_train::{FeatureCache, Sequence, TrainError};
use sha2::{Digest, Sha256};

use super::data::{failure, target};
use super::export::draft_in;
use super::meter::Meter;
use super::{RecipeArgs, RunArgs, ShapeArgs};
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::obtain::hex;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};
use crate::text::TextPipeline;

/// Share of the steps in which the learning rate rises (arXiv 2602.06036).
const WARMUP: f64 = 0.04;
/// Learning rate times width of the target: the best of those tried for a width of 576, and wider matrices want smaller
/// changes (arXiv 2203.03466).
const RATE_BY_WIDTH: f64 = 1.7;
const WEIGHT_DECAY: f64 = 0.01;
const CLIP: f64 = 1.0;

/// `dflash train run`
pub(super) fn run(args: &RunArgs, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    let loaded = target(&args.target, env, progress)?;
    let called = loaded.info.called.first().cloned().unwrap_or_default();
    let sequences = sequences(&args.data, &called)?;
    let path = loaded.info.target_path.clone();
    let model = loaded.decoder.target();
    let load = || again(&path, &loaded.backend, model.spec().vocab);
    let settings = settings(args, called, &sequences, &loaded.text, model)?;
    let cache = args.features.as_deref().map(|folder| FeatureCache::new(folder, None)).transpose();
    let cache = cache.map_err(failure)?;
    let (interrupt, _caught) = Interrupt::catch();
    let run = Run {
        target: model,
        load: &load,
        stop_ids: &loaded.stop_ids,
        cache: cache.as_ref(),
        device: device()?,
        settings: &settings,
        folder: &args.out,
        ended: &|| interrupt.is_asked(),
    };
    let mut display = Display { meter: Meter::new(progress), last: None };
    run.train(sequences, &mut display).map_err(failure)?;
    let Display { meter, last } = display;
    if let Some(last) = last {
        meter.end(&last);
    }
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
struct Display {
    meter: Meter,
    last: Option<StepLog>,
}

impl Observer for Display {
    fn note(&mut self, text: &str) {
        self.meter.note(&text);
    }

    fn features(&mut self, features: &Features) {
        let left = features.left().map_or(0, |left| left.as_secs().div_ceil(60));
        let Features { done, total, .. } = features;
        let pace = features.per_second();
        self.meter.show(&format!("features: {done} of {total} tokens | {pace:.0} tok/s | {left} min left"));
    }

    fn step(&mut self, step: &StepLog) {
        self.meter.show(step);
        self.last = Some(step.clone());
    }

    fn answered(&mut self, done: usize, all: usize) {
        self.meter.show(&format!("held out: {done} of {all} prompts answered with the draft"));
    }

    fn evaluated(&mut self, evaluation: &EvaluationLog) {
        self.meter.note(evaluation);
    }
}

/// The target once more, with as many ids.
pub(super) fn again(
    path: &Path,
    backend: &Arc<CpuBackend>,
    vocab: usize,
) -> Result<Box<dyn Target>, TrainError> {
    let mut target = load_target(path, Arc::clone(backend) as _, &mut |_, _| {})?.target;
    target.limit_vocab(vocab);
    Ok(target)
}

/// Those of all folders, each prompt once: else one that is held out might be trained on.
fn sequences(folders: &[PathBuf], called: &str) -> Outcome<Vec<Sequence>> {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for folder in folders {
        let made_by = Manifest::read(folder).map_err(failure)?.map(|manifest| manifest.model);
        if let Some(model) = made_by.filter(|model| model != called) {
            say(format_args!(
                "warning: the answers in {} are of {model}, not of {called}: a draft learns best from its own target",
                folder.display()
            ));
        }
        let paths = shards(folder).map_err(failure)?;
        if paths.is_empty() {
            return Err(Failure::new(format!("{} holds no answers", folder.display()))
                .hint(format!("make some with dflash train data --out {}", folder.display())));
        }
        for path in paths {
            let sequences = Shard::read(&path).map_err(failure)?.sequences.into_iter();
            all.extend(sequences.filter(|sequence| known.insert(sequence.ids[..sequence.prompt].to_vec())));
        }
    }
    Ok(all)
}

fn settings(
    args: &RunArgs,
    model: String,
    sequences: &[Sequence],
    text: &TextPipeline,
    target: &dyn Target,
) -> Outcome<RunSettings> {
    let (shape, recipe): (&ShapeArgs, &RecipeArgs) = (&args.draft, &args.recipe);
    let by_epochs = steps(recipe.epochs, sequences.len(), recipe.held_out, recipe.sequences);
    let mask_id = match shape.mask_id {
        Some(id) => id,
        None => unused_special(sequences, text)?,
    };
    Ok(RunSettings {
        model,
        data: name(sequences),
        layers: shape.layers,
        block: shape.block,
        taps: shape.taps.clone(),
        vocab: shape.vocab,
        markov_rank: shape.markov_rank,
        mask_id,
        start: start(&shape.start, shape.layers, target.spec().layers)?,
        steps: recipe.steps.unwrap_or(by_epochs),
        sequences: recipe.sequences,
        anchors: recipe.anchors,
        gamma: recipe.gamma.unwrap_or(if shape.block > 8 { 7.0 } else { 4.0 }),
        learning_rate: recipe.learning_rate.unwrap_or(RATE_BY_WIDTH / target.spec().hidden as f64),
        warmup: WARMUP,
        weight_decay: WEIGHT_DECAY,
        clip: CLIP,
        held_out: recipe.held_out,
        evaluate_every: recipe.evaluate_every,
        seed: recipe.seed,
    })
}

/// The last layers of the target but one apart, as the baseline took them: 25, 27, 29 of 30.
fn start(word: &str, layers: usize, target_layers: usize) -> Outcome<Start> {
    Ok(match word {
        "target" => Start::Target(
            (1..=layers).rev().map(|back| (target_layers + 1).saturating_sub(2 * back)).collect(),
        ),
        "random" => Start::Random,
        path => {
            draft_in(path.as_ref())
                .map_err(|failure| failure.hint("--start also takes the words target and random"))?;
            Start::Draft(path.into())
        }
    })
}

/// Number and hash of sequences.
fn name(sequences: &[Sequence]) -> String {
    let mut hash = Sha256::new();
    for Sequence { ids, prompt, .. } in sequences {
        [ids.len() as u64, *prompt as u64].iter().for_each(|number| hash.update(number.to_le_bytes()));
        ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
    }
    format!("{} sequences {}", sequences.len(), hex(&hash.finalize()[..8]))
}

/// The last control token that no sequence holds: nothing else is meant by its embedding.
fn unused_special(sequences: &[Sequence], text: &TextPipeline) -> Outcome<u32> {
    let tokenizer = text.tokenizer();
    let used: HashSet<u32> = sequences.iter().flat_map(|sequence| sequence.ids.iter().copied()).collect();
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
