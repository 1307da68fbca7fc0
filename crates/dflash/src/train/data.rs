use std::process::ExitCode;

use dflash_engine::EngineOptions;
use dflash_train::TrainError;
use dflash_train::data::{DataOptions, Prompts, Turn, make};

use super::meter::Meter;
use super::{DataArgs, TargetArgs};
use crate::cli::{PairArgs, RuntimeArgs};
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::options::Options;
use crate::pair::PairChoice;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};
use crate::runtime::{Loaded, Runtime};

/// `dflash train data`
pub(super) fn data(args: &DataArgs, env: &Environment) -> Outcome<ExitCode> {
    let prompts = args.prompts.as_deref().map_or(Ok(Prompts::SelfMade), Prompts::read).map_err(failure)?;
    let progress = Progress::of_stderr();
    let engine = EngineOptions {
        max_batch: args.max_batch,
        waiting: args.max_batch,
        step_rows: Some(STEP_ROWS),
        prefix: None,
    };
    let runtime = open(&args.target, engine, env, progress)?;
    let template = runtime.text().template().ok_or_else(no_template)?;
    let turn = Turn::new(runtime.text().tokenizer(), template).map_err(failure)?;
    let options = DataOptions {
        tokens: args.tokens,
        max_tokens: args.max_tokens,
        side_by_side: args.max_batch,
        seed: args.seed,
        context: runtime.info().target.context,
    };
    let (interrupt, _caught) = Interrupt::catch();
    let asked = || interrupt.is_asked();
    let model = runtime.info().called.first().cloned().unwrap_or_default();
    let mut meter = Meter::new(progress);
    let made = make(
        runtime.engine(),
        &turn,
        runtime.stop_ids(),
        &prompts,
        &options,
        &model,
        &args.out,
        &asked,
        &mut |progress| meter.show(progress),
    )
    .map_err(failure)?;
    meter.end(&made);
    if made.tokens < args.tokens && !asked() {
        say("every prompt has its answer: more tokens need more prompts");
    }
    if asked() {
        say(format_args!("the same command goes on from here: {}", args.out.display()));
        return Err(Failure::interrupted());
    }
    Ok(ExitCode::SUCCESS)
}

/// Prompt rows of a step: nobody waits for the next token here, so they may be many.
const STEP_ROWS: usize = 128;

/// The target alone, decoding.
fn open(args: &TargetArgs, engine: EngineOptions, env: &Environment, progress: Progress) -> Outcome<Runtime> {
    let (choice, options) = choice(args, env)?;
    Runtime::open_for(&choice, &options, engine, None, env, progress)
}

/// The target alone, loaded.
pub(super) fn target(args: &TargetArgs, env: &Environment, progress: Progress) -> Outcome<Loaded> {
    let (choice, options) = choice(args, env)?;
    Loaded::open(&choice, &options, env, progress)
}

/// The target alone, and how it is computed.
pub(super) fn choice(args: &TargetArgs, env: &Environment) -> Outcome<(PairChoice, Options)> {
    let pair = PairArgs { model: args.model.clone(), draft: Some("none".to_owned()), draft_quant: None };
    let runtime = RuntimeArgs { threads: args.threads.clone(), ..RuntimeArgs::default() };
    let options = Options::resolve(&pair, &runtime, env)?;
    Ok((PairChoice::of(pair.model.as_deref(), pair.draft.as_deref())?, options))
}

fn no_template() -> Failure {
    Failure::new("the model has no chat template, so nobody can ask it something")
        .hint("a draft is trained on answers: take the instruction-tuned variant of the model")
}

pub(super) fn failure(error: TrainError) -> Failure {
    Failure::from_error(&error)
}
