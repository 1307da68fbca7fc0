//! `dflash benchmark`: how fast a pair is on this machine, beside plain decoding and beside how fast it could be.

mod answered;
mod bench;
mod category;
mod ceiling;
mod chart;
mod comparison;
mod curve;
mod folder;
mod grid;
pub mod html;
mod leg;
mod machine;
mod manifest;
mod measure;
mod memory;
mod positions;
mod prompt_report;
mod repetition;
mod score;
mod spread;
mod summary;
mod table;
mod text;
mod trial;

use std::process::ExitCode;

use crate::costs;
use crate::env::Environment;
use crate::progress::Progress;
use crate::report::Outcome;
use crate::request::{BenchmarkRequest, CurveRequest};
use crate::run::{print, to_json};
use crate::runtime::Loaded;

pub use curve::{DraftPoint, StepPoint, StepReport};

/// Runs the command.
pub fn benchmark(request: &BenchmarkRequest, env: &Environment) -> Outcome<ExitCode> {
    match request {
        BenchmarkRequest::Curve(request) => curve(request, env),
        BenchmarkRequest::Comparison(request) => comparison::compare(request, env),
    }
}

/// Measures the steps of a pair. What they cost is remembered: the width policy picks by it from now on.
fn curve(request: &CurveRequest, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    let pair = Loaded::open(&request.pair, &request.options, env, progress)?;
    let (report, step_costs) = curve::measure(&pair, progress)?;
    costs::keep(&pair.decoder, &pair.info, &request.options, &step_costs);
    print(&if request.json { to_json(&report)? } else { table::text(&report) })
}
