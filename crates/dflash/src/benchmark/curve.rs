use std::collections::BTreeMap;

use dflash_cpu::{Arithmetic, Ceilings, Work};
use dflash_engine::{Effort, Pass, StepCosts, Stopwatch};
use serde::Serialize;

use crate::costs::unmeasurable;
use crate::progress::Progress;
use crate::report::Outcome;
use crate::runtime::{Loaded, PairNames};

/// Rows of the steps, beside the whole block.
const ROWS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// What `dflash benchmark --curve --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// The models.
    pub pair: PairNames,
    /// Version and profile of this build.
    pub build: String,
    /// Kernels in use.
    pub isa: &'static str,
    /// Threads.
    pub threads: usize,
    /// Positions before the rows of a step.
    pub context: usize,
    /// Bytes read from memory per second at best, in 10^9.
    pub bandwidth_gb_s: f64,
    /// Multiply-adds per second at best, in 10^9, by arithmetic.
    pub gmac_s: BTreeMap<&'static str, f64>,
    /// Steps of the target, by ascending rows.
    pub rows: Vec<StepPoint>,
    /// Proposals of the draft, by ascending rows; none without a draft model.
    pub draft: Vec<DraftPoint>,
}

/// A step of the target.
#[derive(Debug, Clone, Serialize)]
pub struct StepPoint {
    /// Rows, with a choice at every one.
    pub rows: usize,
    /// Median milliseconds.
    pub step_ms: f64,
    /// Over the step of one row.
    pub ratio: f64,
    /// `floor_ms` over `step_ms`: 1 is as fast as the machine can be.
    pub floor_fraction: f64,
    /// Median milliseconds of the same rows without any choice.
    pub step_without_logits_ms: f64,
    /// Milliseconds that reading or multiplying takes at the ceilings, whichever is longer.
    pub floor_ms: f64,
}

/// A proposal of the draft.
#[derive(Debug, Clone, Serialize)]
pub struct DraftPoint {
    /// Rows of the block, the staged one included.
    pub rows: usize,
    /// Median milliseconds.
    pub draft_ms: f64,
    /// `floor_ms` over `draft_ms`.
    pub floor_fraction: f64,
    /// As [`StepPoint::floor_ms`].
    pub floor_ms: f64,
}

/// Measures the ceilings before and after the steps: the larger ones count, since a shared machine may be slow in
/// either minute, and a floor should be one.
pub fn measure(pair: &Loaded, progress: Progress) -> Outcome<(StepReport, StepCosts)> {
    let mut step = progress.when_long("Measuring the steps of this pair: up to a minute for a large one");
    let before = pair.backend.ceilings();
    let mut watch = Stopwatch::new(&pair.decoder);
    let passes = with_bare(watch.passes(&ROWS));
    let mut works = Vec::new();
    for &pass in &passes {
        step();
        works.push(work(pair, &mut watch, pass)?);
    }
    let seconds = watch.time(&passes, Effort::THOROUGH, &mut step).map_err(unmeasurable)?;
    let ceilings = before.larger(&pair.backend.ceilings());
    let timed: Vec<(Pass, f64)> = passes.into_iter().zip(seconds).collect();
    let costs = StepCosts::of(&timed, pair.decoder.proposers().len());
    let floors: Vec<f64> = works.iter().map(|work| ceilings.floor(work)).collect();
    Ok((report(pair, watch.context(), &ceilings, &points(&timed, &floors)), costs))
}

/// The same rows without choices beside every verification.
fn with_bare(passes: Vec<Pass>) -> Vec<Pass> {
    let both = |pass| match pass {
        Pass::Verify(rows) => vec![pass, Pass::Forward(rows)],
        _ => vec![pass],
    };
    passes.into_iter().flat_map(both).collect()
}

/// What a pass reads and multiplies.
fn work(pair: &Loaded, watch: &mut Stopwatch<'_>, pass: Pass) -> Outcome<Work> {
    let before = pair.backend.work();
    watch.run(pass).map_err(unmeasurable)?;
    Ok(pair.backend.work() - before)
}

/// Steps and proposals from the seconds and floors of all passes.
fn points(timed: &[(Pass, f64)], floors: &[f64]) -> (Vec<StepPoint>, Vec<DraftPoint>) {
    let seconds = |wanted| timed.iter().find(|(pass, _)| *pass == wanted).map_or(f64::NAN, |timed| timed.1);
    let one = seconds(Pass::Verify(1));
    let (mut steps, mut drafts) = (Vec::new(), Vec::new());
    for (&(pass, took), floor) in timed.iter().zip(floors) {
        let (floor_fraction, floor_ms) = (floor / took, 1e3 * floor);
        match pass {
            Pass::Verify(rows) => steps.push(StepPoint {
                rows,
                step_ms: 1e3 * took,
                ratio: took / one,
                floor_fraction,
                step_without_logits_ms: 1e3 * seconds(Pass::Forward(rows)),
                floor_ms,
            }),
            Pass::Forward(_) => {}
            Pass::Propose { width, .. } => {
                drafts.push(DraftPoint { rows: width, draft_ms: 1e3 * took, floor_fraction, floor_ms });
            }
        }
    }
    (steps, drafts)
}

fn report(
    pair: &Loaded,
    context: usize,
    ceilings: &Ceilings,
    (rows, draft): &(Vec<StepPoint>, Vec<DraftPoint>),
) -> StepReport {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let rate = |arithmetic: Arithmetic| (arithmetic.name(), ceilings.multiply_adds[arithmetic] / 1e9);
    StepReport {
        pair: pair.info.names(),
        build: format!("{} {profile}", env!("CARGO_PKG_VERSION")),
        isa: pair.backend.isa().name(),
        threads: pair.backend.threads(),
        context,
        bandwidth_gb_s: ceilings.bytes / 1e9,
        gmac_s: Arithmetic::ALL.into_iter().map(rate).collect(),
        rows: rows.clone(),
        draft: draft.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_that_of_its_pass() {
        let propose = Pass::Propose { proposer: 1, width: 4 };
        let passes = with_bare(vec![Pass::Verify(1), Pass::Verify(4), propose]);
        let bare = [Pass::Verify(1), Pass::Forward(1), Pass::Verify(4), Pass::Forward(4), propose];
        assert_eq!(passes, bare);
        let seconds = [0.004, 0.003, 0.008, 0.006, 0.002];
        let timed: Vec<_> = passes.into_iter().zip(seconds).collect();
        let (steps, drafts) = points(&timed, &[0.002, 0.0, 0.006, 0.0, 0.001]);
        let step = |point: &StepPoint| {
            let StepPoint { rows, step_ms, ratio, floor_fraction, step_without_logits_ms, floor_ms } = point;
            (*rows, [*step_ms, *ratio, *floor_fraction, *step_without_logits_ms, *floor_ms])
        };
        assert_eq!(step(&steps[0]), (1, [4.0, 1.0, 0.5, 3.0, 2.0]));
        assert_eq!(step(&steps[1]), (4, [8.0, 2.0, 0.75, 6.0, 6.0]));
        assert_eq!((steps.len(), drafts.len()), (2, 1));
        let DraftPoint { rows, draft_ms, floor_fraction, floor_ms } = drafts[0];
        assert_eq!((rows, draft_ms, floor_fraction, floor_ms), (4, 2.0, 0.5, 1.0));
    }
}
