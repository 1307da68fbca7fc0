//! Ids per second of the features of a target, beside the floor of its passes.
//!
//!     cargo run --release -p dflash-train --example features_bench -- TARGET EVAL_JSON

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_models::load_target;
use dflash_train::{FeatureCache, Features, Sequence};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [target, eval] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("give a target and an eval.json".into());
    };
    let backend = Arc::new(CpuBackend::new(2, Isa::detect()));
    let loaded = load_target(Path::new(target), Arc::clone(&backend) as _, &mut |_, _| ())?;
    let layers = loaded.target.spec().layers;
    let taps: Vec<usize> = [0.03, 0.27, 0.47, 0.67, 0.9].map(|part| (part * layers as f64) as usize).to_vec();
    let eval: serde_json::Value = serde_json::from_slice(&std::fs::read(eval)?)?;
    let ids = |value: &serde_json::Value| -> Result<Vec<u32>, _> { serde_json::from_value(value.clone()) };
    let mut sequences = Vec::new();
    for (source, prompt) in (0..).zip(eval["prompts"].as_array().into_iter().flatten()) {
        let (prompt, answer) = (ids(&prompt["prompt_ids"])?, ids(&prompt["greedy_ids"])?);
        let ids = [&prompt[..], &answer].concat();
        sequences.push(Sequence { source, category: "any".into(), prompt: prompt.len(), ids });
    }
    let ceilings = backend.ceilings();
    for _ in 0..3 {
        let dir = tempfile::tempdir()?;
        let cache = FeatureCache::new(dir.path(), None)?;
        let (began, work, mut done) = (Instant::now(), backend.work(), 0);
        Features::open(Some(&cache), loaded.target.as_ref(), &taps, &sequences, &mut |progress| {
            done = progress.done;
            true
        })?;
        let (took, floor) = (began.elapsed().as_secs_f64(), ceilings.floor(&(backend.work() - work)));
        println!(
            "{done} ids in {took:.2} s: {:.0} a second, {:.0} % of the floor",
            done as f64 / took,
            100.0 * floor / took
        );
        let began = Instant::now();
        let features =
            Features::open(Some(&cache), loaded.target.as_ref(), &taps, &sequences, &mut |_| true)?;
        let opened = began.elapsed().as_secs_f64();
        let mut rows = Vec::new();
        (0..sequences.len()).for_each(|index| features.rows(index, &mut rows));
        let read = began.elapsed().as_secs_f64() - opened;
        println!("  again: {opened:.2} s to open, {:.0} ids a second read", done as f64 / read);
    }
    Ok(())
}
