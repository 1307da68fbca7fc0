//! Quantised and converted checkpoints: taken back to f32 they are what transformers computes from the
//! dequantised weights, and the quantised arithmetic stays close to that.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::dequantised::Dequantised;
use common::{backend, check_runs, data, goldens, load, run};
use dflash_models::Target;
use dflash_tensor::Backend;

/// Distance of a row from the golden one, relative to its length.
const TOLERANCE: f64 = 1e-4;

/// All GGUF files that have a golden, and all MLX directories, with their goldens.
fn checkpoints() -> Vec<(PathBuf, PathBuf)> {
    let entries = |dir: &str| {
        let entries = std::fs::read_dir(data(dir)).expect("test data");
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let gguf = entries("gguf").into_iter().filter(|path| path.extension().is_some_and(|e| e == "gguf"));
    let gguf = gguf.map(|path| (path.clone(), path.with_extension("golden.safetensors")));
    let mlx = entries("mlx").into_iter().map(|path| (path.clone(), path.join("golden.safetensors")));
    let mut all = gguf.chain(mlx).filter(|(_, golden)| golden.exists()).collect::<Vec<_>>();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn dequantised_weights_give_the_goldens() {
    let plain: Arc<dyn Backend> = Arc::new(Dequantised(backend()));
    let checkpoints = checkpoints();
    assert!(checkpoints.len() >= 40, "{} checkpoints", checkpoints.len());
    for (path, golden) in checkpoints {
        let loaded = load(&path, &plain).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check_runs(loaded.target.as_ref(), &golden, TOLERANCE);
    }
}

/// Mean divergence, in nats, that the eight-bit activations of integer kernels may cause on these tiny random
/// models: all of them in one format, or one model. Weights are the same on both sides.
const FIGURES: [(&str, f64); 18] = [
    ("q2_k", 2e-4),
    ("q3_k_l", 2e-4),
    ("q4_0", 4e-4),
    ("q4_1", 4e-4),
    ("q4_k_m", 2e-4),
    ("q5_0", 2e-4),
    ("q5_1", 2e-4),
    ("q8_0", 4e-4),
    ("mixed", 3e-4),
    ("llama-2bit", 2e-4),
    ("llama-3bit", 2e-4),
    ("llama-4bit", 3e-4),
    ("llama-5bit", 2e-4),
    ("llama-6bit", 2e-4),
    ("llama-8bit", 2e-4),
    // A router's scores are rounded too, and where two experts are close another one is taken.
    ("qwen35moe", 2e-2),
    ("qwen3_5_moe", 2e-3),
    // Any other file.
    ("", 1e-3),
];

#[test]
fn integer_kernels_stay_close_to_the_dequantised_weights() {
    let (integer, plain) = (backend(), Arc::new(Dequantised(backend())) as Arc<dyn Backend>);
    let mut diverging = 0;
    for (path, golden) in checkpoints() {
        let [exact, quantised] = [&plain, &integer].map(|backend| load(&path, backend).unwrap().target);
        let divergence = mean_divergence(&golden, exact.as_ref(), quantised.as_ref());
        let name = name(&path);
        let (_, figure) = FIGURES.iter().find(|(prefix, _)| name.starts_with(prefix)).expect("the last fits");
        assert!(divergence <= *figure, "{name}: {divergence:.2e} nats, more than {figure:.0e}");
        diverging += usize::from(divergence > 0.0);
    }
    assert!(diverging >= 25, "{diverging} quantised files");
}

/// Mean divergence of the next-token distributions over all rows of all runs.
fn mean_divergence(golden: &Path, exact: &dyn Target, quantised: &dyn Target) -> f64 {
    let values = goldens(golden);
    let mut divergences = Vec::new();
    for n in (0..).take_while(|n| values.contains_key(&format!("{n}.ids"))) {
        let ids = values[&format!("{n}.ids")].ids();
        let [p, q] = [exact, quantised].map(|target| run(target, &ids, &[ids.len()], &[]).logits);
        divergences.extend(p.iter().zip(&q).map(|(p, q)| divergence(p, q)));
    }
    divergences.iter().sum::<f64>() / divergences.len() as f64
}

/// Kullback-Leibler divergence of the distributions with these logits.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    logits.iter().map(|&logit| f64::from(logit - max) - sum.ln()).collect()
}
