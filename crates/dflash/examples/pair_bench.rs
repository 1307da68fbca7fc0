//! Speed of the default pair on this machine: `cargo run --release -p dflash --example pair_bench`.
//!
//! Everything is measured in one run, as medians, with the read bandwidth of the same minute beside it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Draft as FoundDraft, Locator, PairChoice};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::report::{Failure, Outcome};
use dflash_cpu::CpuBackend;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{
    Decoder, DecoderOptions, Decoding, Event, Fixed, Proposer, Request, Stats, StepCosts, VerifyMode,
};
use dflash_models::{Draft, DraftOptions, Target, load_target};
use dflash_tensor::{Batch, Shape};
use serde_json::Value;

const EVALUATION: &str = include_str!("../../../models/smollm2-135m-dflash/eval.json");

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Outcome<()> {
    let env = Environment::of_process();
    let options = Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env)?;
    let locator = Locator {
        registry: Registry::built_in(),
        options: &options,
        env: &env,
        progress: Progress::of_stderr(),
    };
    let choice = PairChoice::of(None, None)?;
    let located = locator.target(&choice)?;
    let FoundDraft::Model { path: draft, .. } = locator.draft(&choice, &located, None)? else {
        return Err(Failure::new("the default pair has a draft"));
    };
    let backend = Arc::new(CpuBackend::detect());
    let loaded = load_target(&located.path, Arc::clone(&backend) as _, &mut |_, _| {}).map_err(failure)?;
    let bandwidth = backend.read_bandwidth();
    println!("{}, {:.1} GB/s read", dflash_tensor::Backend::name(backend.as_ref()), bandwidth / 1e9);
    steps(loaded.target.as_ref(), loaded.weight_bytes as f64 / bandwidth)?;
    let draft = Draft::load(&draft, loaded.target.as_ref(), DraftOptions::default()).map_err(failure)?;
    decoding(loaded.target, draft)
}

fn failure(error: impl std::error::Error) -> Failure {
    Failure::from_error(&error)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Passes of 1 to 16 rows with the choice at every row, and a prefill of 512.
fn steps(target: &dyn Target, floor: f64) -> Outcome<()> {
    let mut one = 0.0;
    for rows in [1, 2, 3, 4, 6, 8, 12, 16] {
        let seconds = pass_seconds(target, 64, rows, rows, 25)?;
        one = if rows == 1 { seconds } else { one };
        let ratio = seconds / one;
        println!("{rows:>4} rows {:>8.2} ms  {ratio:>5.2} x one row", 1e3 * seconds);
        if rows == 1 {
            println!("          {:.2} of the time is reading the weights at that bandwidth", floor / seconds);
        }
    }
    let seconds = pass_seconds(target, 0, 512, 1, 5)?;
    println!("prefill of 512 {:.0} ms, {:.0} tok/s", 1e3 * seconds, 512.0 / seconds);
    Ok(())
}

/// Median seconds of a pass after `context` positions, with the choice at the last `choices` rows.
fn pass_seconds(
    target: &dyn Target,
    context: usize,
    rows: usize,
    choices: usize,
    times: usize,
) -> Outcome<f64> {
    let (mut workspace, mut batch, mut cache) = (target.workspace(), Batch::new(), target.new_cache());
    let mut pass = |rows: usize, accept: usize, out: &mut Vec<_>| {
        batch.clear();
        let ids: Vec<u32> = (0..rows).map(|row| 100 + 7 * row as u32).collect();
        batch.push(&ids, cache.len(), Shape::Chain);
        cache.begin_verify(rows);
        target.forward(&mut workspace, &batch, &mut [&mut cache], None);
        cache.accept_chain(accept);
        let chosen: Vec<usize> = (rows - choices.min(rows)..rows).collect();
        target.choose(&workspace, &chosen, out).map_err(failure)
    };
    if context > 0 {
        pass(context, context, &mut Vec::new())?;
    }
    let mut seconds = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        pass(rows, 0, &mut Vec::new())?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}

/// Plain decoding of 256 ids, then every held-out prompt plainly and with the draft in turn.
fn decoding(target: Box<dyn Target>, draft: Draft) -> Outcome<()> {
    let block = draft.spec().block;
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(block)), Box::new(BlockDiffusion::new(draft))];
    let options = DecoderOptions { prefill_chunk: 2048, block, verify_cap: 0, mode: VerifyMode::Adaptive };
    let mut decoder = Decoder::new(target, proposers, options);
    let costs = StepCosts::measure(&decoder, &mut || {}).map_err(failure)?;
    let milliseconds = |points: &[(usize, f64)]| {
        points
            .iter()
            .map(|(rows, seconds)| format!("{rows}: {:.1}", 1e3 * seconds))
            .collect::<Vec<_>>()
            .join(", ")
    };
    println!("verify ms by rows: {}", milliseconds(costs.verify.points()));
    for curve in costs.propose.iter().flatten() {
        println!("draft ms by rows:  {}", milliseconds(curve.points()));
    }
    decoder.set_costs(costs);

    let evaluation: Value = serde_json::from_str(EVALUATION).map_err(failure)?;
    let prompts = evaluation["prompts"].as_array().into_iter().flatten();
    let prompts: Vec<Vec<u32>> = prompts
        .map(|prompt| prompt["prompt_ids"].as_array().into_iter().flatten())
        .map(|ids| ids.filter_map(|id| Some(id.as_u64()? as u32)).collect())
        .collect();

    let speeds = (0..5).map(|_| {
        let stats = decode(&decoder, &prompts[0], 256, Vec::new(), Decoding::Plain)?;
        Ok(stats.decode_tokens_per_second())
    });
    println!("plain decoding of 256 ids {:.1} tok/s", median(speeds.collect::<Outcome<Vec<_>>>()?));

    compare(&decoder, &prompts)?;
    idle_draft(decoder.with_policy(|_| Box::new(Fixed::new(1, Vec::new()))), &prompts[0])
}

/// What it costs to keep a draft's context ready that is never asked.
fn idle_draft(decoder: Decoder, prompt: &[u32]) -> Outcome<()> {
    let mut ratios = Vec::new();
    for _ in 0..9 {
        let plain = decode(&decoder, prompt, 256, Vec::new(), Decoding::Plain)?.decode_s;
        ratios.push(decode(&decoder, prompt, 256, Vec::new(), Decoding::Speculative)?.decode_s / plain);
    }
    println!("plain steps with an idle draft beside: {:.3} x the time (median of nine)", median(ratios));
    Ok(())
}

/// Every prompt plainly and with the draft in turn, five times; medians.
fn compare(decoder: &Decoder, prompts: &[Vec<u32>]) -> Outcome<()> {
    let (mut ratios, mut totals) = (Vec::new(), [0.0, 0.0]);
    for prompt in prompts {
        let (mut seconds, mut last) = ([Vec::new(), Vec::new()], Stats::default());
        for _ in 0..5 {
            for (seconds, decoding) in seconds.iter_mut().zip([Decoding::Plain, Decoding::Speculative]) {
                last = decode(decoder, prompt, 300, vec![2], decoding)?;
                seconds.push(last.decode_s);
            }
        }
        let [plain, speculative] = seconds.map(median);
        ratios.push(plain / speculative);
        totals = [totals[0] + plain, totals[1] + speculative];
        println!(
            "{:>5} ids, plain {plain:.2} s, with the draft {speculative:.2} s: {:.3} x  {:?} {:?}",
            last.completion_tokens,
            plain / speculative,
            last.cycles_by_proposer,
            last.cycles_by_width,
        );
    }
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let all = totals[0] / totals[1];
    println!(
        "with the draft over plain: median {:.3}, lowest {lowest:.3}, all together {all:.3}",
        median(ratios)
    );
    Ok(())
}

fn decode(
    decoder: &Decoder,
    prompt: &[u32],
    max: usize,
    stop_ids: Vec<u32>,
    decoding: Decoding,
) -> Outcome<Stats> {
    let mut end = None;
    let request = Request { stop_ids, decoding, ..Request::new(prompt.to_vec(), max) };
    decoder
        .decode(request, &mut |event| {
            if let Event::Finished { stats, .. } = event {
                end = Some(stats);
            }
            true
        })
        .map_err(failure)?;
    end.ok_or_else(|| Failure::new("a request ends"))
}
