//! `dflash benchmark`: how fast a pair is on this machine, beside how fast it could be.

mod chart;
mod curve;
pub mod html;
mod table;

use std::process::ExitCode;

use crate::costs;
use crate::env::Environment;
use crate::progress::Progress;
use crate::report::Outcome;
use crate::request::BenchmarkRequest;
use crate::run::{print, to_json};
use crate::runtime::Loaded;

pub use curve::{DraftPoint, StepPoint, StepReport};

/// Measures the steps of a pair. What they cost is remembered: the width policy picks by it from now on.
pub fn benchmark(request: &BenchmarkRequest, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    let pair = Loaded::open(&request.pair, &request.options, env, progress)?;
    let (report, step_costs) = curve::measure(&pair, progress)?;
    costs::keep(&pair.decoder, &pair.info, &request.options, &step_costs);
    print(&if request.json { to_json(&report)? } else { table::text(&report) })
}
