//! What verifying a tree of the draft's alternatives would gain over verifying its one chain, computed from what
//! the default pair's draft says along real answers: `cargo run --release -p dflash --example tree_gain`.
//!
//! Along every held-out greedy answer the draft is asked at each position. A simulated cycle then verifies the
//! rows that are worth it, by probabilities calibrated on these very answers: once the best chain, once the best
//! tree ([`best_first`]), under cost curves in plain steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Draft as FoundDraft, Locator, PairChoice};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::report::{Failure, Outcome};
use dflash_cpu::CpuBackend;
use dflash_engine::{Curve, best_first};
use dflash_models::{Draft, DraftOptions, Ranked, Taps, Target, load_target};
use dflash_tensor::{Batch, Shape};
use serde_json::Value;

const EVALUATION: &str = include_str!("../../../models/smollm2-135m-dflash/eval.json");
/// Alternatives per position that are recorded.
const RANKS: usize = 8;
/// Rows of the blocks that are drafted, and rows verified at most.
const WIDTHS: [usize; 3] = [2, 4, 8];
const MOST_ROWS: usize = 16;

fn main() -> Outcome<()> {
    let (target, draft) = open()?;
    let answers = answers()?;
    let mut records: BTreeMap<usize, Vec<Answer>> = BTreeMap::new();
    for (number, (prompt, ids)) in answers.iter().enumerate() {
        eprintln!("answer {} of {}", number + 1, answers.len());
        for width in WIDTHS {
            records.entry(width).or_default().push(record(target.as_ref(), &draft, prompt, ids, width)?);
        }
    }
    println!("| costs | best chain | best tree of 2 | of 4 | of 8 alternatives | gain |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for costs in Costs::all() {
        let best = |ranks: usize| {
            let speeds = records.iter().map(|(&width, answers)| costs.speed(width, answers, ranks));
            speeds.fold(0.0, f64::max)
        };
        let [chain, two, four, eight] = [1, 2, 4, 8].map(best);
        let gain = 100.0 * (two.max(four).max(eight) / chain - 1.0);
        println!("| {} | {chain:.3} | {two:.3} | {four:.3} | {eight:.3} | {gain:.1} % |", costs.name);
    }
    Ok(())
}

fn open() -> Outcome<(Box<dyn Target>, Draft)> {
    let env = Environment::of_process();
    let options = Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env)?;
    let (registry, progress) = (Registry::built_in(), Progress::of_stderr());
    let locator = Locator { registry, options: &options, env: &env, progress };
    let choice = PairChoice::of(None, None)?;
    let located = locator.target(&choice)?;
    let FoundDraft::Model { path, .. } = locator.draft(&choice, &located, None)? else {
        return Err(Failure::new("the default pair has a draft"));
    };
    let target =
        load_target(&located.path, Arc::new(CpuBackend::detect()), &mut |_, _| {}).map_err(failure)?.target;
    let draft = Draft::load(&path, target.as_ref(), DraftOptions::default()).map_err(failure)?;
    Ok((target, draft))
}

fn failure(error: impl std::error::Error) -> Failure {
    Failure::from_error(&error)
}

/// Prompts with their greedy answers.
fn answers() -> Outcome<Vec<(Vec<u32>, Vec<u32>)>> {
    let evaluation: Value = serde_json::from_str(EVALUATION).map_err(failure)?;
    let ids = |list: &Value| -> Vec<u32> {
        list.as_array().into_iter().flatten().filter_map(|id| Some(id.as_u64()? as u32)).collect()
    };
    let prompts = evaluation["prompts"].as_array().into_iter().flatten();
    Ok(prompts.map(|prompt| (ids(&prompt["prompt_ids"]), ids(&prompt["greedy_ids"]))).collect())
}

/// What the draft says at every position of one answer.
struct Answer {
    /// Per staged token: `RANKS` alternatives of every drafted position, and the ids that really follow.
    blocks: Vec<(Vec<Ranked>, Vec<u32>)>,
}

fn record(
    target: &dyn Target,
    draft: &Draft,
    prompt: &[u32],
    answer: &[u32],
    width: usize,
) -> Outcome<Answer> {
    let ids = [prompt, answer].concat();
    let mut taps = Taps::new(Arc::clone(target.backend()), &draft.spec().taps, target.spec().hidden);
    let (mut cache, mut workspace, mut batch) = (target.new_cache(), target.workspace(), Batch::new());
    batch.push(&ids, 0, Shape::Chain);
    cache.begin_prefill(ids.len());
    target.forward(&mut workspace, &batch, &mut [&mut cache], Some(&mut taps));
    let (mut state, mut workspace) = (draft.new_state(), draft.workspace());
    draft.observe(&mut workspace, &mut state, taps.rows(), 0..prompt.len(), 0);
    let mut blocks = Vec::new();
    for staged in prompt.len()..ids.len() - 1 {
        let mut ranked = Vec::new();
        draft
            .propose_ranked(&mut workspace, &mut [&mut state], &[ids[staged]], width, RANKS, &mut ranked)
            .map_err(failure)?;
        blocks.push((ranked, ids[staged + 1..(staged + width).min(ids.len())].to_vec()));
        draft.observe(&mut workspace, &mut state, taps.rows(), staged..staged + 1, 0);
    }
    Ok(Answer { blocks })
}

/// Seconds in plain steps.
struct Costs {
    name: &'static str,
    verify: Curve,
    propose: Curve,
}

impl Costs {
    /// The reference machine in its two states, and a device at which rows are nearly free.
    fn all() -> [Self; 3] {
        let costs = |name, verify: &[(usize, f64)], propose: &[(usize, f64)]| Self {
            name,
            verify: Curve::new(verify.to_vec()),
            propose: Curve::new(propose.to_vec()),
        };
        [
            costs(
                "near cores",
                &[(1, 1.0), (2, 1.04), (4, 1.2), (8, 1.88), (16, 3.47)],
                &[(2, 0.36), (4, 0.40), (8, 0.55), (16, 0.95)],
            ),
            costs(
                "far cores",
                &[(1, 1.0), (2, 1.21), (4, 1.66), (8, 2.71), (16, 4.86)],
                &[(2, 0.40), (4, 0.47), (8, 0.71), (16, 1.44)],
            ),
            costs("flat", &[(1, 1.0), (16, 1.1)], &[(2, 0.15), (16, 0.15)]),
        ]
    }

    /// Ids per plain step with blocks of `width` and `ranks` alternatives (1 is the chain), at the rows that are
    /// worth it; plain decoding is 1.
    fn speed(&self, width: usize, answers: &[Answer], ranks: usize) -> f64 {
        let calibration = Calibration::of(answers, width);
        // What a row is worth depends on the speed that it leads to.
        (0..6).fold(1.0, |pace: f64, _| {
            let mut sum = (0, 0.0);
            for answer in answers {
                self.decode(width, answer, ranks, &calibration, pace.max(1.0), &mut sum);
            }
            sum.0 as f64 / sum.1
        })
    }

    fn decode(
        &self,
        width: usize,
        answer: &Answer,
        ranks: usize,
        calibration: &Calibration,
        pace: f64,
        (ids, time): &mut (usize, f64),
    ) {
        let mut at = 0;
        while let Some((ranked, truth)) = answer.blocks.get(at) {
            let probability =
                |position: usize, rank: usize| calibration.at(position, &ranked[position * RANKS + rank]);
            let tree = best_first(width - 1, ranks, MOST_ROWS - 1, probability);
            let mut best = (0, 1.0 - pace * self.verify.at(1), 1.0);
            for (count, node) in tree.iter().enumerate() {
                let expected = best.2 + node.reach;
                let worth = expected - pace * self.verify.at(count + 2);
                best = if worth > best.1 { (count + 1, worth, expected) } else { (best.0, best.1, expected) };
            }
            let mut last = None;
            let mut accepted = 0;
            while let Some(next) = tree[..best.0].iter().position(|node| {
                let id = ranked[node.position * RANKS + node.rank].id;
                node.parent == last && truth.get(node.position) == Some(&id)
            }) {
                last = Some(next);
                accepted += 1;
            }
            *ids += accepted + 1;
            *time += self.propose.at(width) + self.verify.at(best.0 + 1);
            at += accepted + 1;
        }
    }
}

/// How often an alternative is right when all before it were, by its probability and position.
struct Calibration {
    cells: BTreeMap<(usize, usize), (f64, f64)>,
}

impl Calibration {
    fn of(answers: &[Answer], width: usize) -> Self {
        let mut cells: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for (ranked, truth) in answers.iter().flat_map(|answer| &answer.blocks) {
            for (position, id) in truth.iter().enumerate().take(width - 1) {
                let ranked = &ranked[position * RANKS..][..RANKS];
                for ranked in ranked {
                    let cell = cells.entry(Self::cell(position, ranked)).or_default();
                    cell.0 += f64::from(u8::from(ranked.id == *id));
                    cell.1 += 1.0;
                }
                if ranked.iter().all(|ranked| ranked.id != *id) {
                    break;
                }
            }
        }
        Self { cells }
    }

    fn cell(position: usize, ranked: &Ranked) -> (usize, usize) {
        (position.min(4), (20.0 * ranked.probability.sqrt()) as usize)
    }

    fn at(&self, position: usize, ranked: &Ranked) -> f64 {
        let guess = 0.8 * f64::from(ranked.probability);
        let (right, seen) = self.cells.get(&Self::cell(position, ranked)).copied().unwrap_or_default();
        (right + 4.0 * guess) / (seen + 4.0)
    }
}
