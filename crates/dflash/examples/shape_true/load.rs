//! What it takes to load a model and to run it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dflash_cpu::CpuBackend;
use dflash_engine::{Decoder, DecoderOptions, Decoding, Event, Request, VerifyMode};
use dflash_models::{LoadedTarget, Target, load_target};
use dflash_tensor::{Batch, LayerCache, Shape};

use crate::Outcome;

const PROMPT: usize = 128;
const ANSWER: usize = 32;
/// Rows of a pass that leaves a tape.
const BLOCK: usize = 16;

/// Prints the report.
pub fn report(path: &Path) -> Outcome<()> {
    let files = bytes_of(path)?;
    let backend = Arc::new(CpuBackend::detect());
    let (before, began) = (memory("VmRSS")?, Instant::now());
    let mut steps = Vec::new();
    let loaded = load_target(path, backend, &mut |done, total| steps.push((done, total)))?;
    let seconds = began.elapsed().as_secs_f64();
    println!("files             {}", mb(files));
    println!(
        "packed weights    {} ({:.3} x files)",
        mb(loaded.weight_bytes),
        ratio(loaded.weight_bytes, files)
    );
    let (peak, after) = (memory("VmHWM")?, memory("VmRSS")? - before);
    println!("peak of memory    {} ({:.3} x files)", mb(peak), ratio(peak, files));
    println!("memory after      {} ({:.3} x files)", mb(after), ratio(after, files));
    println!("  of it mapped    {}", mb(memory("RssFile")?));
    println!("load              {seconds:.2} s, {:.2} GB/s of file", files as f64 / seconds / 1e9);
    progress(&steps);
    loaded.notes.iter().for_each(|note| println!("note: {note}"));
    cache(loaded.target.as_ref())?;
    speed(loaded)
}

/// How honest the progress was: the end must be reached by what was read, not by a last leap.
fn progress(steps: &[(u64, u64)]) {
    let share = |&(done, total): &(u64, u64)| 100.0 * done as f64 / total as f64;
    let (last, before) = (steps.last().map_or(0.0, share), steps.iter().rev().nth(1).map_or(0.0, share));
    let leap = steps.windows(2).map(|pair| share(&pair[1]) - share(&pair[0])).fold(0.0, f64::max);
    println!(
        "progress          {} steps, the last from {before:.2} to {last:.2} %, the widest {leap:.1} %",
        steps.len()
    );
}

fn cache(target: &dyn Target) -> Outcome<()> {
    let (mut cache, mut ws) = (target.new_cache(), target.workspace());
    let layers = || 0..target.new_cache().layers();
    let per_position = layers().map(|layer| cache.layer(layer).bytes_per_position()).sum::<usize>();
    let mut batch = Batch::default();
    batch.push(&[0; BLOCK], 0, Shape::Chain);
    cache.begin_verify(BLOCK);
    target.forward(&mut ws, &batch, &mut [&mut cache], None);
    let recurrent = |layer| match cache.layer(layer) {
        LayerCache::Recurrent(store) => Some(store),
        LayerCache::Kv(_) => None,
    };
    let (mut states, mut tapes) = (0, 0);
    for store in layers().filter_map(recurrent) {
        states += store.bytes() - store.tape_bytes();
        tapes += store.tape_bytes();
    }
    println!("cache             {per_position} bytes a position");
    println!(
        "states            {} a sequence, tapes of {BLOCK} rows {}",
        mb(states as u64),
        mb(tapes as u64)
    );
    cache.accept_chain(BLOCK);
    Ok(())
}

fn speed(loaded: LoadedTarget) -> Outcome<()> {
    let vocab = loaded.target.spec().vocab as u32;
    let options = DecoderOptions { prefill_chunk: 512, block: 16, verify_cap: 0, mode: VerifyMode::Off };
    let decoder = Decoder::new(loaded.target, Vec::new(), options);
    let prompt = (0..PROMPT as u32).map(|i| i * 7919 % vocab).collect();
    let request = Request { decoding: Decoding::Plain, ..Request::new(prompt, ANSWER) };
    let mut end = None;
    decoder.decode(request, &mut |event| {
        if let Event::Finished { stats, .. } = event {
            end = Some(stats);
        }
        true
    })?;
    let stats = end.ok_or("a request ends")?;
    println!(
        "prefill           {PROMPT} tokens in {:.2} s ({:.1} tok/s)",
        stats.prefill_s,
        PROMPT as f64 / stats.prefill_s
    );
    println!("plain decoding    {:.2} tok/s", stats.decode_tokens_per_second());
    println!("memory at the end {}", mb(memory("VmRSS")?));
    Ok(())
}

fn bytes_of(path: &Path) -> Outcome<u64> {
    if path.is_file() {
        return Ok(path.metadata()?.len());
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "safetensors") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// A figure of this process in bytes.
fn memory(name: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(1024 * kilobytes.ok_or("a figure of /proc/self/status")?)
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
