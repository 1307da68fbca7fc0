//! Tokens per cycle and speed of a draft on the prompts of an `eval.json`.
//!
//!     cargo run --release -p dflash-train --example evaluate -- TARGET DRAFT EVAL_JSON [BLOCK [MAX_TOKENS]]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_models::{Target, load_target};
use dflash_train::Sequence;
use dflash_train::evaluate::{EvaluateOptions, Speeds, evaluate, step_costs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [target, draft, eval, rest @ ..] = &args[..] else {
        return Err("give a target, a draft and an eval.json".into());
    };
    let number = |index: usize, usual| rest.get(index).map_or(Ok(usual), |text| text.parse::<usize>());
    let (block, max_tokens) = (number(0, 8)?, number(1, 300)?);
    let backend = Arc::new(CpuBackend::new(2, Isa::detect()));
    let load = || -> Result<Box<dyn Target>, dflash_models::ModelError> {
        Ok(load_target(Path::new(target), Arc::clone(&backend) as _, &mut |_, _| ())?.target)
    };
    let eval: serde_json::Value = serde_json::from_slice(&std::fs::read(eval)?)?;
    let sequence = |(source, value): (u64, &serde_json::Value)| {
        let ids: Vec<u32> = serde_json::from_value(value["prompt_ids"].clone())?;
        Ok::<_, serde_json::Error>(Sequence { source, category: "held out".into(), prompt: ids.len(), ids })
    };
    let prompts = (0..).zip(eval["prompts"].as_array().into_iter().flatten());
    let sequences = prompts.map(sequence).collect::<Result<Vec<_>, _>>()?;
    let first = load()?;
    let stop_ids = first.spec().stop_ids.clone();
    let options = EvaluateOptions { block, max_tokens, ..EvaluateOptions::default() };
    let began = Instant::now();
    let evaluation = evaluate(first, Path::new(draft), &sequences, &stop_ids, &options, &mut |_| true)?;
    println!("{evaluation}\n{:.1} s\n", began.elapsed().as_secs_f64());
    let costs = step_costs(load()?, Path::new(draft), block)?;
    println!("{}", Speeds::new(&evaluation.all.acceptance(), &costs));
    Ok(())
}
