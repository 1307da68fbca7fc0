//! Throughput with several requests side by side, drafting on and off:
//!
//!     cargo run --release -p dflash-engine --example batch_bench TARGET DRAFT [SIDE BY SIDE]...
//!
//! TARGET is a GGUF file of the default pair's target, DRAFT a directory. Both ways take turns in one process over the
//! same held-out prompts; medians of three. Prompts are part of the time.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_engine::proposer::{BlockDiffusion, ContextCopy, Grammar};
use dflash_engine::{
    Decoder, DecoderOptions, Decoding, EngineHandle, EngineOptions, Event, Proposer, Request, StepCosts,
    Submission, VerifyMode,
};
use dflash_models::{Draft, DraftOptions, load_target};
use serde_json::Value;

const EVALUATION: &str = include_str!("../../../models/smollm2-135m-dflash/eval.json");
/// Ids of every answer.
const IDS: usize = 128;
const ROUNDS: usize = 3;
/// Requests of a round, however many of them are side by side.
const REQUESTS: usize = 16;
const WAYS: [Decoding; 2] = [Decoding::Plain, Decoding::Speculative];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, draft, sizes @ ..] = &arguments[..] else {
        return Err("usage: batch_bench TARGET DRAFT [SIDE BY SIDE]...".into());
    };
    let sizes: Vec<usize> = match sizes {
        [] => vec![1, 2, 4, 8, 16],
        _ => sizes.iter().map(|size| size.parse()).collect::<Result<_, _>>()?,
    };
    let decoder = decoder(Path::new(target), Path::new(draft))?;
    let curve = |points: &[(usize, f64)]| {
        let points = points.iter().map(|(rows, seconds)| format!("{rows}: {:.1}", 1e3 * seconds));
        points.collect::<Vec<_>>().join(", ")
    };
    let costs = decoder.costs().ok_or("measured costs")?;
    println!("verify ms by rows: {}", curve(costs.verify.points()));
    costs.propose.iter().flatten().for_each(|draft| println!("draft ms by rows: {}", curve(draft.points())));
    let engine = EngineHandle::start(
        decoder,
        EngineOptions { max_batch: REQUESTS, waiting: 0, step_rows: None, prefix: None },
    );
    let prompts = prompts()?;
    println!("{:>12} {:>12} {:>12} {:>8}", "side by side", "plain tok/s", "drafting", "ratio");
    for size in sizes {
        let [plain, drafting] = seconds(&engine, &prompts, size.clamp(1, REQUESTS))?;
        let rate = |seconds: f64| (prompts.len() * IDS) as f64 / seconds;
        println!("{size:>12} {:>12.1} {:>12.1} {:>8.3}", rate(plain), rate(drafting), plain / drafting);
    }
    Ok(())
}

fn decoder(target: &Path, draft: &Path) -> Outcome<Decoder> {
    let threads = std::thread::available_parallelism()?.get();
    let backend = Arc::new(CpuBackend::new(threads, Isa::detect()));
    let target = load_target(target, backend, &mut |_, _| {})?.target;
    let draft = Draft::load(draft, target.as_ref(), DraftOptions::default())?;
    let block = draft.spec().block;
    let proposers: Vec<Box<dyn Proposer>> = vec![
        Box::new(ContextCopy::new(block)),
        Box::new(Grammar::new(block)),
        Box::new(BlockDiffusion::new(draft)),
    ];
    let options = DecoderOptions { prefill_chunk: 512, block, verify_cap: 0, mode: VerifyMode::Adaptive };
    let mut decoder = Decoder::new(target, proposers, options);
    decoder.set_costs(StepCosts::measure(&decoder, REQUESTS, &mut || {})?);
    Ok(decoder)
}

fn prompts() -> Outcome<Vec<Vec<u32>>> {
    let evaluation: Value = serde_json::from_str(EVALUATION)?;
    let prompts = evaluation["prompts"].as_array().ok_or("prompts")?.iter().take(REQUESTS);
    let ids = |prompt: &Value| Ok(serde_json::from_value(prompt["prompt_ids"].clone())?);
    prompts.map(ids).collect()
}

/// Median seconds of all requests, so many at a time, each way.
fn seconds(engine: &EngineHandle, prompts: &[Vec<u32>], size: usize) -> Outcome<[f64; 2]> {
    let mut sums = [0.0, 0.0];
    for group in prompts.chunks(size) {
        let (mut took, mut answers) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..ROUNDS {
            for (took, way) in took.iter_mut().zip(WAYS) {
                let began = Instant::now();
                answers.push(decode(engine, group, way)?);
                took.push(began.elapsed().as_secs_f64());
            }
        }
        if answers.iter().any(|answer| *answer != answers[0]) {
            return Err("answers differ".into());
        }
        sums.iter_mut().zip(took).for_each(|(sum, took)| *sum += median(took));
    }
    Ok(sums)
}

/// Answers of all prompts, side by side.
fn decode(engine: &EngineHandle, prompts: &[Vec<u32>], decoding: Decoding) -> Outcome<Vec<Vec<u32>>> {
    let request = |prompt: &Vec<u32>| Request { decoding, ..Request::new(prompt.clone(), IDS) };
    let submissions = prompts.iter().map(|prompt| engine.submit(request(prompt)));
    let submissions: Vec<Submission> = submissions.collect::<Result<_, _>>()?;
    submissions.into_iter().map(answer).collect()
}

fn answer(events: Submission) -> Outcome<Vec<u32>> {
    let mut ids = Vec::new();
    for event in events {
        match event {
            Event::Tokens(new) => ids.extend(new),
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(ids)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
