//! `dflash train`: makes a draft for a target. The work is done by `dflash-train`, which is part of builds with the
//! feature `train`.

mod args;
#[cfg(feature = "train")]
mod data;
#[cfg(feature = "train")]
mod evaluate;
#[cfg(feature = "train")]
mod export;
#[cfg(feature = "train")]
mod meter;
#[cfg(feature = "train")]
mod run;

use std::process::ExitCode;

use crate::env::Environment;
use crate::report::Outcome;

pub use args::{
    DataArgs, EvaluateArgs, ExportArgs, FormatArg, LayoutArg, RecipeArgs, RunArgs, ShapeArgs, TargetArgs,
    TrainArgs, TrainStep,
};

/// Runs the command.
///
/// # Errors
/// A target that cannot be had, folders of other work, and whatever the step reports.
#[cfg(feature = "train")]
pub fn train(args: &TrainArgs, env: &Environment) -> Outcome<ExitCode> {
    match &args.step {
        TrainStep::Data(args) => data::data(args, env),
        TrainStep::Run(args) => run::run(args, env),
        TrainStep::Evaluate(args) => evaluate::evaluate(args, env),
        TrainStep::Export(args) => export::export(args, env),
    }
}

/// Says that this build cannot do it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "train"))]
pub fn train(_: &TrainArgs, _: &Environment) -> Outcome<ExitCode> {
    Err(crate::report::Failure::new("this build of dflash has no training")
        .hint("build it with cargo build --release -p dflash --features train"))
}
