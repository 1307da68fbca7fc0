//! What the tests of this crate share.
#![allow(dead_code)]

pub mod cycles;
pub mod gguf;
pub mod mutation;

pub mod dequantised;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dflash_cpu::{CpuBackend, Isa};
use dflash_models::{LoadedTarget, ModelError, Taps, Target, load_target};
use dflash_tensor::{Backend, Batch, Shape, Tensor};
use dflash_testkit::TinyLlama;
use serde_json::Value;
use tempfile::TempDir;

/// A file of the test data.
pub fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// A backend for every instruction set of this machine.
pub fn backends() -> Vec<Arc<dyn Backend>> {
    let threads = |isa| if isa == Isa::Scalar { 1 } else { 2 };
    Isa::available().map(|isa| Arc::new(CpuBackend::new(threads(isa), isa)) as Arc<dyn Backend>).collect()
}

/// The backend for tests where the kernels do not matter.
pub fn backend() -> Arc<dyn Backend> {
    Arc::new(CpuBackend::new(1, Isa::detect()))
}

pub fn load(path: &Path, backend: &Arc<dyn Backend>) -> Result<LoadedTarget, ModelError> {
    load_target(path, Arc::clone(backend), &mut |_, _| {})
}

/// The error of a load that must fail.
pub fn refused(path: &Path) -> ModelError {
    load(path, &backend()).err().expect("the checkpoint is refused")
}

/// A golden tensor; integers are widened to f64 too.
pub struct Golden {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Golden {
    pub fn ids(&self) -> Vec<u32> {
        self.values.iter().map(|&x| x as u32).collect()
    }

    pub fn row(&self, row: usize) -> &[f64] {
        let cols = self.shape[self.shape.len() - 1];
        &self.values[row * cols..][..cols]
    }
}

/// Reads F32 and I64 tensors.
pub fn goldens(path: &Path) -> BTreeMap<String, Golden> {
    let bytes = std::fs::read(path).expect("test data");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let data = &bytes[8 + length..];
    let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
    tensors.map(|(name, entry)| (name.clone(), golden(entry, data))).collect()
}

fn golden(entry: &Value, data: &[u8]) -> Golden {
    let numbers = |key: &str| -> Vec<usize> {
        entry[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
    };
    let offsets = numbers("data_offsets");
    let bytes = &data[offsets[0]..offsets[1]];
    let values = match entry["dtype"].as_str().unwrap() {
        "F32" => bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        "I64" => bytes.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
        other => panic!("golden type {other}"),
    };
    Golden { shape: numbers("shape"), values }
}

/// Asserts that a row is close to the golden one, measured against the spread of the golden row.
pub fn assert_close(found: &[f32], golden: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), golden.len(), "{what}");
    let spread = (golden.iter().map(|x| x * x).sum::<f64>() / golden.len() as f64).sqrt();
    let worst = found.iter().zip(golden).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(worst <= tolerance * spread, "{what}: {worst:.2e} off at a spread of {spread:.2e}");
}

/// Asserts that the distance of two rows is a small part of the golden one's length.
pub fn assert_relative(found: &[f32], golden: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), golden.len(), "{what}");
    let length = |squares: f64| squares.sqrt();
    let distance = length(found.iter().zip(golden).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum());
    let relative = distance / length(golden.iter().map(|x| x * x).sum());
    assert!(relative <= tolerance, "{what}: {relative:.2e} off");
}

/// Runs every golden sequence; rows whose distance from the golden one is more than `tolerance` fail.
pub fn check_runs(target: &dyn Target, golden: &Path, tolerance: f64) {
    let values = goldens(golden);
    let (hidden, layers) = (target.spec().hidden, (0..target.spec().layers).collect::<Vec<_>>());
    let runs = (0..).take_while(|n| values.contains_key(&format!("{n}.ids"))).count();
    assert!(runs >= 3, "runs of {}", golden.display());
    for n in 0..runs {
        let ids = values[&format!("{n}.ids")].ids();
        let found = run(target, &ids, &[ids.len()], &layers);
        for row in 0..ids.len() {
            let what = format!("{} run {n} row {row}", golden.display());
            for &layer in &layers {
                let Some(tap) = values.get(&format!("{n}.tap.{layer}")) else { continue };
                let found = &found.taps[row][layer * hidden..][..hidden];
                assert_relative(found, tap.row(row), tolerance, &format!("{what} tap {layer}"));
            }
            assert_relative(&found.logits[row], values[&format!("{n}.logits")].row(row), tolerance, &what);
        }
    }
}

/// Runs `ids` from an empty cache in pieces of the given lengths; returns logits and taps of every row.
pub fn run(target: &dyn Target, ids: &[u32], pieces: &[usize], taps: &[usize]) -> Run {
    let mut cache = target.new_cache();
    let mut ws = target.workspace();
    let mut taps = Taps::new(Arc::clone(target.backend()), taps, target.spec().hidden);
    let mut run = Run::default();
    let mut start = 0;
    for &piece in pieces {
        let mut batch = Batch::new();
        batch.push(&ids[start..start + piece], start, Shape::Chain);
        cache.begin_verify(piece);
        target.forward(&mut ws, &batch, &mut [&mut cache], Some(&mut taps));
        cache.accept_chain(piece);
        let rows = (0..piece).collect::<Vec<_>>();
        let mut logits = target.backend().tensor(piece, target.head().rows());
        target.logits(&ws, &rows, &mut logits);
        run.logits.extend(read(target.backend(), &logits, 0..piece));
        run.taps.extend(read(target.backend(), taps.rows(), 0..piece));
        target.choose(&ws, &rows, &mut run.choices).expect("no NaN");
        start += piece;
    }
    assert_eq!(start, ids.len(), "the pieces cover the ids");
    run
}

#[derive(Default)]
pub struct Run {
    pub logits: Vec<Vec<f32>>,
    pub taps: Vec<Vec<f32>>,
    pub choices: Vec<dflash_tensor::Choice>,
}

pub fn read(backend: &Arc<dyn Backend>, tensor: &Tensor, rows: Range<usize>) -> Vec<Vec<f32>> {
    rows.map(|row| backend.read(tensor, row)).collect()
}

/// A tensor with these rows.
pub fn tensor(backend: &Arc<dyn Backend>, rows: &[Vec<f32>]) -> Tensor {
    let mut tensor = backend.tensor(rows.len(), rows[0].len());
    tensor.set_rows(rows.len());
    rows.iter().enumerate().for_each(|(row, values)| backend.write(&mut tensor, row, values));
    tensor
}

/// A copy of a checkpoint directory in `into`, with `config.json` taken from `config`.
pub fn copy_dir(from: &Path, into: &Path, config: &str) -> PathBuf {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, into.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::copy(from.join(config), into.join("config.json")).unwrap();
    into.to_owned()
}

/// Changes `config.json` of a directory.
pub fn edit_config(dir: &Path, edit: impl FnOnce(&mut Value)) {
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(&mut config);
    std::fs::write(path, config.to_string()).unwrap();
}

/// A tiny target in a directory of its own.
pub fn tiny(llama: &TinyLlama) -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = llama.write(&temp.path().join("model"));
    (temp, dir)
}

/// The error after one change of the config.
pub fn refused_with(edit: impl FnOnce(&mut Value)) -> ModelError {
    let (_temp, dir) = tiny(&TinyLlama::default());
    edit_config(&dir, edit);
    refused(&dir)
}

/// What loads after one change of the config.
pub fn loads_with(edit: impl FnOnce(&mut Value)) -> LoadedTarget {
    let (_temp, dir) = tiny(&TinyLlama::default());
    edit_config(&dir, edit);
    load(&dir, &backend()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn assert_says(error: &ModelError, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} in {text:?}"));
}
