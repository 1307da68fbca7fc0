use std::process::ExitCode;

use dflash_models::Target;
use dflash_train::evaluate::{EvaluateOptions, Speeds, evaluate as decode, step_costs};
use dflash_train::{Sequence, TrainError};
use serde_json::json;

use super::EvaluateArgs;
use super::data::{choice, failure};
use super::export::draft_in;
use super::meter::Meter;
use super::run::again;
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::{Failure, Outcome};
use crate::run::{print, to_json};
use crate::runtime::Loaded;
use crate::suite::{self, Prompt, SuiteRequest};

/// `dflash train evaluate`
pub(super) fn evaluate(args: &EvaluateArgs, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    let draft = draft_in(&args.draft)?;
    let (pair, options) = choice(&args.target, env)?;
    let prompts = suite::prompts(&SuiteRequest::read(&args.suite, env)?, &options, env, progress)?;
    let loaded = Loaded::open(&pair, &options, env, progress)?;
    let sequences = prompts.into_iter().zip(0..).map(|(prompt, source)| sequence(&loaded, prompt, source));
    let sequences = sequences.collect::<Outcome<Vec<_>>>()?;
    let Loaded { decoder, backend, info, stop_ids, .. } = loaded;
    let vocab = decoder.target().spec().vocab;
    // Only one of them is held at a time.
    drop(decoder);
    let target = || -> Result<Box<dyn Target>, TrainError> { again(&info.target_path, &backend, vocab) };

    let (interrupt, _caught) = Interrupt::catch();
    let mut meter = Meter::new(progress);
    let options =
        EvaluateOptions { block: args.block, max_tokens: args.max_tokens, ..EvaluateOptions::default() };
    let evaluation =
        decode(target().map_err(failure)?, &draft, &sequences, &stop_ids, &options, &mut |done| {
            meter.show(&format!("{done} of {} prompts answered", sequences.len()));
            !interrupt.is_asked()
        });
    let evaluation = match evaluation {
        Err(TrainError::Ended) => return Err(Failure::interrupted()),
        evaluation => evaluation.map_err(failure)?,
    };
    meter.end(&format!("{} prompts answered; what do steps cost here?", sequences.len()));
    let costs = step_costs(target().map_err(failure)?, &draft, args.block).map_err(failure)?;
    let speeds = Speeds::new(&evaluation.all.acceptance(), &costs);
    print(&match args.json {
        true => to_json(&json!({ "evaluation": evaluation, "speeds": speeds }))?,
        false => format!("{evaluation}\n{speeds}"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A prompt as the model sees it.
fn sequence(loaded: &Loaded, prompt: Prompt, source: u64) -> Outcome<Sequence> {
    let ids = prompt.ids(&loaded.text, true)?;
    Ok(Sequence { source, category: prompt.category, prompt: ids.len(), ids })
}
