//! Throughput of the default pair with several requests side by side, drafting on and off:
//! `cargo run --release -p dflash --example batch_bench [SIDE BY SIDE]...`, by default 1 2 4 8 16.
//!
//! Both ways take turns in one process over the same built-in prompts, one of every category; medians of three.
//! Prompts are part of the time.

use std::process::ExitCode;
use std::time::Instant;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::PairChoice;
use dflash::progress::Progress;
use dflash::report::{Failure, Outcome};
use dflash::runtime::Runtime;
use dflash::suite::{self, SuiteArgs, SuiteRequest};
use dflash_engine::{Decoding, EngineHandle, EngineOptions, Event, Request, Submission};

/// Ids of every answer.
const IDS: usize = 128;
const ROUNDS: usize = 3;
/// Requests of a round, however many of them are side by side.
const REQUESTS: usize = 16;
const WAYS: [Decoding; 2] = [Decoding::Plain, Decoding::Speculative];

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
    let choice = PairChoice::of(None, None)?;
    let engine = EngineOptions { max_batch: REQUESTS, waiting: 0, step_rows: None };
    let runtime = Runtime::open_for(&choice, &options, engine, &env, Progress::of_stderr())?;
    let suite = SuiteArgs {
        suite: Some("builtin".into()),
        limit: Some(REQUESTS.to_string()),
        ..SuiteArgs::default()
    };
    let prompts = suite::prompts(&SuiteRequest::read(&suite, &env)?, &options, &env, Progress::Silent)?;
    let ids = prompts.iter().map(|prompt| runtime.text().encode_chat(None, &prompt.text));
    let ids = ids.collect::<Outcome<Vec<Vec<u32>>>>()?;
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    println!("{:>12} {:>12} {:>12} {:>8}", "side by side", "plain tok/s", "with drafts", "ratio");
    for size in if given.is_empty() { vec![1, 2, 4, 8, 16] } else { given } {
        let [plain, drafts] = seconds(runtime.engine(), &ids, size.clamp(1, REQUESTS))?;
        let rate = |seconds: f64| (ids.len() * IDS) as f64 / seconds;
        println!("{size:>12} {:>12.1} {:>12.1} {:>8.3}", rate(plain), rate(drafts), plain / drafts);
    }
    Ok(())
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
            return Err(Failure::new("answers differ"));
        }
        for (sum, took) in sums.iter_mut().zip(took) {
            *sum += median(took);
        }
    }
    Ok(sums)
}

/// Answers of all prompts, side by side.
fn decode(engine: &EngineHandle, prompts: &[Vec<u32>], decoding: Decoding) -> Outcome<Vec<Vec<u32>>> {
    let request = |prompt: &Vec<u32>| Request { decoding, ..Request::new(prompt.clone(), IDS) };
    let submissions = prompts.iter().map(|prompt| engine.submit(request(prompt)));
    let submissions: Vec<Submission> =
        submissions.collect::<Result<_, _>>().map_err(|error| Failure::from_error(&error))?;
    submissions.into_iter().map(answer).collect()
}

fn answer(events: Submission) -> Outcome<Vec<u32>> {
    let mut ids = Vec::new();
    for event in events {
        match event {
            Event::Tokens(new) => ids.extend(new),
            Event::Failed(error) => return Err(Failure::from_error(&error)),
            _ => {}
        }
    }
    Ok(ids)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
