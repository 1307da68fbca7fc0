//! Speed of the default pair on this machine: `cargo run --release -p dflash --example pair_bench`.
//!
//! Everything is measured in one run, as medians, with the read bandwidth of the same minute beside it.
//! `pair_bench MODEL.gguf --json` measures that target alone and prints one line, for
//! `scripts/bench/side_by_side.py`.

use std::path::Path;
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
    Decoder, DecoderOptions, Decoding, Effort, Event, Fixed, Pass, Proposer, Request, Stats, StepCosts,
    Stopwatch, VerifyMode,
};
use dflash_models::{Draft, DraftOptions, Target, load_target};
use dflash_tensor::{Batch, Shape};
use serde_json::{Map, Value, json};

const EVALUATION: &str = include_str!("../../../models/smollm2-135m-dflash/eval.json");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [model, json] if json == "--json" => Loaded::open(Path::new(model)).and_then(Loaded::print_json),
        _ => bench(),
    };
    match done {
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
    let loaded = Loaded::open(&located.path)?;
    println!("{}, {:.1} GB/s read", loaded.backend, loaded.bandwidth / 1e9);
    let floor = loaded.weight_bytes as f64 / loaded.bandwidth;
    let draft = Draft::load(&draft, loaded.target.as_ref(), DraftOptions::default()).map_err(failure)?;
    let block = draft.spec().block;
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(block)), Box::new(BlockDiffusion::new(draft))];
    let decoder = decoder(loaded.target, proposers, block, VerifyMode::Adaptive);
    Times::of(&decoder)?.print(floor);
    decoding(decoder)
}

fn decoder(
    target: Box<dyn Target>,
    proposers: Vec<Box<dyn Proposer>>,
    block: usize,
    mode: VerifyMode,
) -> Decoder {
    Decoder::new(target, proposers, DecoderOptions { prefill_chunk: 2048, block, verify_cap: 0, mode })
}

fn failure(error: impl std::error::Error) -> Failure {
    Failure::from_error(&error)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A target in memory, and the machine that it is on.
struct Loaded {
    target: Box<dyn Target>,
    weight_bytes: u64,
    backend: String,
    /// Bytes per second.
    bandwidth: f64,
}

impl Loaded {
    fn open(path: &Path) -> Outcome<Self> {
        let backend = Arc::new(CpuBackend::detect());
        let loaded = load_target(path, Arc::clone(&backend) as _, &mut |_, _| {}).map_err(failure)?;
        Ok(Self {
            target: loaded.target,
            weight_bytes: loaded.weight_bytes,
            backend: dflash_tensor::Backend::name(backend.as_ref()),
            bandwidth: backend.read_bandwidth(),
        })
    }

    /// One line for scripts, with the speed of plain decoding.
    fn print_json(self) -> Outcome<()> {
        let decoder = decoder(self.target, Vec::new(), 16, VerifyMode::Off);
        let Times { steps, prefill } = Times::of(&decoder)?;
        let steps = steps.iter().map(|(rows, seconds)| (rows.to_string(), json!(1e3 * seconds)));
        let figures = json!({
            "engine": "dflash", "version": env!("CARGO_PKG_VERSION"), "backend": self.backend,
            "read_gb_s": self.bandwidth / 1e9, "weight_mb": self.weight_bytes as f64 / 1e6,
            "steps_ms": steps.collect::<Map<_, _>>(), "prefill_tok_s": 512.0 / prefill,
            "decode_tok_s": plain_speed(&decoder, &prompts()?[0])?,
        });
        println!("{figures}");
        Ok(())
    }
}

/// Times of the passes of a target.
struct Times {
    /// Seconds by rows, with the choice at every row.
    steps: Vec<(usize, f64)>,
    /// Seconds of a prefill of 512.
    prefill: f64,
}

impl Times {
    fn of(decoder: &Decoder) -> Outcome<Self> {
        let mut watch = Stopwatch::new(decoder);
        let mut passes = watch.passes(&[1, 2, 3, 4, 6, 8, 12, 16]);
        passes.retain(|pass| matches!(pass, Pass::Verify(_)));
        let seconds = watch.time(&passes, Effort::THOROUGH, &mut || {}).map_err(failure)?;
        let step = |(pass, seconds)| match pass {
            Pass::Verify(rows) => Some((rows, seconds)),
            _ => None,
        };
        let steps = passes.into_iter().zip(seconds).filter_map(step).collect();
        Ok(Self { steps, prefill: prefill_seconds(decoder.target())? })
    }

    /// `floor` is the time in which all weights are read.
    fn print(&self, floor: f64) {
        let one = self.steps[0].1;
        for &(rows, seconds) in &self.steps {
            println!("{rows:>4} rows {:>8.2} ms  {:>5.2} x one row", 1e3 * seconds, seconds / one);
        }
        println!("{:.2} of the time of one row is reading the weights at that bandwidth", floor / one);
        println!("prefill of 512 {:.0} ms, {:.0} tok/s", 1e3 * self.prefill, 512.0 / self.prefill);
    }
}

/// Tokens per second of plain decoding of 256 ids.
fn plain_speed(decoder: &Decoder, prompt: &[u32]) -> Outcome<f64> {
    let speeds = (0..5).map(|_| {
        let stats = decode(decoder, prompt, 256, Vec::new(), Decoding::Plain)?;
        Ok(stats.decode_tokens_per_second())
    });
    Ok(median(speeds.collect::<Outcome<Vec<_>>>()?))
}

/// The held-out prompts.
fn prompts() -> Outcome<Vec<Vec<u32>>> {
    let evaluation: Value = serde_json::from_str(EVALUATION).map_err(failure)?;
    let prompts = evaluation["prompts"].as_array().into_iter().flatten();
    let ids = prompts.map(|prompt| prompt["prompt_ids"].as_array().into_iter().flatten());
    Ok(ids.map(|ids| ids.filter_map(|id| Some(id.as_u64()? as u32)).collect()).collect())
}

/// Median seconds of a pass over 512 rows of a new sequence, with the choice after the last.
fn prefill_seconds(target: &dyn Target) -> Outcome<f64> {
    const ROWS: usize = 512;
    let (mut workspace, mut batch, mut cache) = (target.workspace(), Batch::new(), target.new_cache());
    let ids: Vec<u32> = (0..ROWS as u32).map(|row| 100 + 7 * row).collect();
    batch.push(&ids, 0, Shape::Chain);
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        cache.begin_verify(ROWS);
        target.forward(&mut workspace, &batch, &mut [&mut cache], None);
        cache.accept_chain(0);
        target.choose(&workspace, &[ROWS - 1], &mut Vec::new()).map_err(failure)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}

/// Plain decoding of 256 ids, then every held-out prompt plainly and with the draft in turn.
fn decoding(mut decoder: Decoder) -> Outcome<()> {
    let costs = StepCosts::measure(&decoder, 1, &mut || {}).map_err(failure)?;
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

    let prompts = prompts()?;
    println!("plain decoding of 256 ids {:.1} tok/s", plain_speed(&decoder, &prompts[0])?);

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
