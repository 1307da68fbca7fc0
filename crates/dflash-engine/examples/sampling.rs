//! What a choice costs: `cargo run --release -p dflash-engine --example sampling`. Medians over rows of bell-shaped logits.

use std::time::Instant;

use dflash_engine::sampling::{Noise, Rule, Sampler};
use dflash_engine::{Sampling, SamplingParams};

const RUNS: usize = 101;

/// Logits about as far apart as those of language models.
fn row(vocab: usize) -> Vec<f32> {
    let noise = Noise::new(1, 0, 0);
    let logit = |id: u32| (0..8).map(|k| noise.exponential(8 * id + k) as f32 - 1.0).sum();
    (0..vocab as u32).map(logit).collect()
}

fn main() {
    let of = |sampling| SamplingParams::new(sampling).expect("valid parameters");
    let warm = Sampling { temperature: 1.0, ..Sampling::default() };
    let ids = (0..1000).map(|i| i * 37 % 49_000).collect::<Vec<_>>();
    println!("{:<24} {:>10} {:>10} µs", "ids", "49152", "248000");
    for (name, params) in [
        ("highest", of(Sampling { presence_penalty: 1e-9, ..Sampling::default() })),
        ("temperature 1", of(warm.clone())),
        ("... and a probability", of(warm.clone())),
        ("temperature 2", of(Sampling { temperature: 2.0, ..warm.clone() })),
        ("top_k 40", of(Sampling { top_k: 40, ..warm.clone() })),
        ("top_p 0.9", of(Sampling { top_p: 0.9, ..warm.clone() })),
        ("min_p 0.05", of(Sampling { min_p: 0.05, ..warm.clone() })),
        ("penalties, 1000 ids", of(Sampling { repetition_penalty: 1.1, ..warm.clone() })),
    ] {
        let cost = |vocab| {
            let (row, mut sampler) = (row(vocab), Sampler::default());
            let rule = Rule { params: &params, choice: 0, prompt: 10 };
            let mut took = (0..RUNS)
                .map(|run| {
                    let began = Instant::now();
                    let distribution = sampler.distribution(&rule, &ids[..500 + run], &[], &row);
                    let distribution = distribution.expect("numbers");
                    std::hint::black_box(distribution.choice());
                    if name.ends_with("a probability") {
                        std::hint::black_box(distribution.probability(0));
                    }
                    began.elapsed()
                })
                .collect::<Vec<_>>();
            took.sort();
            took[RUNS / 2].as_secs_f64() * 1e6
        };
        println!("{name:<24} {:>10.0} {:>10.0}", cost(49_152), cost(248_000));
    }
}
