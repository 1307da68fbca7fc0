//! Quantised and converted checkpoints: taken back to f32 they are what transformers computes from the
//! dequantised weights, and the quantised arithmetic stays close to that.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::dequantised::Dequantised;
use common::{backend, check_runs, data, goldens, load, run};
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
    let mut failures = Vec::new();
    for (path, golden) in checkpoints() {
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let loaded = load(&path, &plain).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            check_runs(loaded.target.as_ref(), &golden, TOLERANCE);
        }));
        if r.is_err() {
            failures.push(name(&path));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
#[test]
fn divergence() {
    let plain: Arc<dyn Backend> = Arc::new(Dequantised(backend()));
    for (path, golden) in checkpoints() {
        let (Ok(exact), Ok(quantised)) = (load(&path, &plain), load(&path, &backend())) else { continue };
        println!(
            "KL {} {:.2e}",
            name(&path),
            divergence_of(&golden, exact.target.as_ref(), quantised.target.as_ref())
        );
    }
}

/// Mean divergence (nats) of the next-token distributions over all rows of all runs.
fn divergence_of(
    golden: &Path,
    exact: &dyn dflash_models::Target,
    quantised: &dyn dflash_models::Target,
) -> f64 {
    let values = goldens(golden);
    let (mut sum, mut rows) = (0.0, 0);
    for n in (0..).take_while(|n| values.contains_key(&format!("{n}.ids"))) {
        let ids = values[&format!("{n}.ids")].ids();
        let [p, q] = [exact, quantised].map(|target| run(target, &ids, &[ids.len()], &[]).logits);
        sum += p.iter().zip(&q).map(|(p, q)| kl(p, q)).sum::<f64>();
        rows += ids.len();
    }
    sum / f64::from(u32::try_from(rows).unwrap())
}

fn kl(p: &[f32], q: &[f32]) -> f64 {
    let log_softmax = |x: &[f32]| {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = x.iter().map(|&x| f64::from(x - max).exp()).sum();
        x.iter().map(|&x| f64::from(x - max) - sum.ln()).collect::<Vec<_>>()
    };
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}
