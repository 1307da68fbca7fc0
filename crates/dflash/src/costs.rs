//! Step costs of a pair on this machine, measured once and remembered in the cache directory.

use dflash_engine::{Decoder, EngineError, StepCosts};
use sysinfo::System;

use crate::options::Options;
use crate::progress::Progress;
use crate::remembered::{self, Entry, stamp};
use crate::report::{Failure, Outcome};
use crate::runtime::PairInfo;

const FILE: &str = "step-costs.json";

/// The costs of `decoder` with up to `sequences` sequences in a step, measured when this machine has not seen the pair
/// with this build: a fraction of a second for a small one, some seconds for a large one.
///
/// They decide about time, never about text, so a cache that cannot be read or written is no failure.
pub fn known_or_measured(
    decoder: &Decoder,
    info: &PairInfo,
    options: &Options,
    sequences: usize,
    progress: Progress,
) -> Outcome<StepCosts> {
    let known = remembered::recall(options, FILE, &key(decoder, info), &state(info));
    if let Some(costs) = known.filter(|costs: &StepCosts| costs.fit(decoder, sequences)) {
        return Ok(costs);
    }
    let mut step = progress.when_long("Measuring how long this pair's steps take, once");
    let costs = StepCosts::measure(decoder, sequences, &mut step).map_err(unmeasurable)?;
    keep(decoder, info, options, &costs);
    Ok(costs)
}

/// Remembers costs in place of what was known of the pair.
pub fn keep(decoder: &Decoder, info: &PairInfo, options: &Options, costs: &StepCosts) {
    let entry = Entry { of: state(info), value: costs.clone() };
    remembered::keep(options, FILE, &key(decoder, info), entry);
}

/// Says what a pair that cannot be measured needs.
pub fn unmeasurable(error: EngineError) -> Failure {
    let failure = Failure::from_error(&error);
    match error {
        EngineError::Proposer { .. } => {
            failure.hint("--draft none decodes without it, --draft PATH takes another")
        }
        _ => failure,
    }
}

/// The pair as it runs here: a cache directory may be shared by machines.
fn key(decoder: &Decoder, info: &PairInfo) -> String {
    let host = System::host_name().unwrap_or_default();
    format!("{host} | {} | {}", info.backend, remembered::pair(decoder, info))
}

/// The build and the files of a pair: another build has other costs.
fn state(info: &PairInfo) -> String {
    let build = std::env::current_exe().map(|path| stamp(&path)).unwrap_or_default();
    format!("{} {build} | {}", env!("CARGO_PKG_VERSION"), remembered::files(info))
}
