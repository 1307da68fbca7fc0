//! The checkpoints that every law is tried on.
//!
//! To add a family: put tiny checkpoints of it into `crates/dflash-models/tests/data` (the scripts in
//! `scripts/golden` write them), one per variant of its layers. They are found by themselves, by the tests over
//! [`Case::all`]. Then name those in [`KINDS`] whose layers no other has; the long tests go over these.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dflash_testkit::{TinyGemma, TinyLlama};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One checkpoint for every kind of layer, of its sizes and of its storage.
const KINDS: &[&str] = &[
    "llama/tied",
    "qwen2/tied",
    "qwen3/tied",
    "qwen3_moe/mixed-bf16",
    "qwen3_next/mixed-r2",
    "qwen3_next/sparse-r3",
    "qwen3_5/flat-r1",
    "qwen3_5/wrapper-r2",
    "qwen3_5/wrapper-r3",
    "qwen3_5_moe/fused",
    "qwen3_5_moe/flat-separate-r3",
    "gemma4/dense",
    "gemma4/moe",
    "gemma4/ple",
    "lfm2/plain",
    "lfm2/bias",
    "mlx/llama-3bit",
    "mlx/qwen3_5_moe-4bit-gs64",
    "gguf/qwen35-r3-f32.gguf",
    "gguf/qwen35moe-r2-q8_0.gguf",
    "gguf/gemma4-ple-q8_0.gguf",
    "gguf/lfm2-q8_0.gguf",
];

/// Folders of the test data that hold targets.
const FOLDERS: &[&str] = &[
    "llama",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_moe",
    "gemma4",
    "lfm2",
    "mlx",
    "gguf",
];

/// A checkpoint under test.
pub struct Case {
    pub name: String,
    pub path: PathBuf,
    /// Where it lies, when it was made for the test.
    temp: Option<TempDir>,
}

impl Case {
    /// A checkpoint of the test data.
    pub fn data(name: &str) -> Self {
        Self { name: name.into(), path: data(name), temp: None }
    }

    /// A checkpoint that `write` makes in a directory.
    pub fn made(name: &str, write: impl FnOnce(&Path)) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        write(temp.path());
        Self { name: name.into(), path: temp.path().to_owned(), temp: Some(temp) }
    }

    /// The small Llama that tests of the engine alone take.
    pub fn tiny_llama() -> Self {
        Self::made("tiny llama", |dir| drop(TinyLlama::default().write(dir)))
    }

    /// A copy of a directory of the test data with a changed config.
    pub fn edited(name: &str, edit: impl FnOnce(&mut Value)) -> Self {
        Self::made(name, |dir| copy(&data(name), dir, edit))
    }

    /// A copy of a directory of the test data with room for long runs.
    pub fn long(name: &str) -> Self {
        Self::edited(name, |config| {
            let nested = config.get("text_config").is_some();
            let config = if nested { &mut config["text_config"] } else { config };
            config["max_position_embeddings"] = json!(4096);
        })
    }

    /// One of every kind.
    pub fn kinds() -> Vec<Self> {
        let mut kinds = KINDS.iter().map(|name| Self::data(name)).collect::<Vec<_>>();
        kinds.push(Self::edited("qwen2/tied", sliding));
        kinds.push(Self::made("tiny gemma", |dir| drop(TinyGemma::default().write(dir))));
        kinds
    }

    /// Every target of the test data, and those that are made.
    pub fn all() -> Vec<Self> {
        let names = FOLDERS.iter().flat_map(|folder| names(folder)).collect::<BTreeSet<_>>();
        assert!(KINDS.iter().all(|&name| names.contains(name)), "the kinds are there");
        let (data, made) = (names.iter().map(|name| Self::data(name)), Self::kinds().into_iter());
        data.chain(made.filter(|case| case.temp.is_some())).collect()
    }
}

/// A file of the test data.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data").join(name)
}

/// The checkpoints of a folder: directories with a config, and whole GGUF files.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(data(folder)).expect("test data");
    let paths = entries.map(|entry| entry.expect("test data").path());
    let targets = paths.filter(|path| {
        path.join("config.json").exists() || path.extension().is_some_and(|end| end == "gguf")
    });
    let name = |path: PathBuf| {
        path.file_name().and_then(|name| name.to_str()).map(|name| format!("{folder}/{name}"))
    };
    targets.map(|path| name(path).expect("a readable name")).collect()
}

fn copy(from: &Path, into: &Path, edit: impl FnOnce(&mut Value)) {
    let path = from.join("config.json");
    let mut config = serde_json::from_slice(&std::fs::read(path).expect("test data")).expect("JSON");
    edit(&mut config);
    std::fs::write(into.join("config.json"), config.to_string()).expect("a writable directory");
    std::fs::copy(from.join("model.safetensors"), into.join("model.safetensors")).expect("test data");
}

/// Windows shorter than a block, around a layer that sees everything.
fn sliding(config: &mut Value) {
    config["use_sliding_window"] = json!(true);
    config["sliding_window"] = json!(9);
    config["layer_types"] = json!(["sliding_attention", "full_attention", "sliding_attention"]);
}
