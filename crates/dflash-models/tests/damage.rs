//! Damaged files end in an error: no panic, no allocation that the file does not justify.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use common::{backend, data, load};
use dflash_models::{Draft, DraftOptions, ModelError};
use dflash_testkit::{TinyDraft, TinyLlama};
use proptest::prelude::*;
use tempfile::TempDir;

/// What is done to a file.
#[derive(Debug, Clone)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    Fill(usize, u8),
}

impl Damage {
    fn apply(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let len = bytes.len();
        match *self {
            Self::Cut(at) => bytes.truncate(at % len),
            Self::Flip(at, bit) => bytes[at % len] ^= 1 << bit,
            Self::Fill(at, value) => bytes.iter_mut().skip(at % len).take(8).for_each(|byte| *byte = value),
        }
        bytes
    }
}

/// Damage within the first `reach` bytes, where the headers are; cuts anywhere.
fn damage(reach: usize, len: usize) -> impl Strategy<Value = Damage> {
    prop_oneof![
        (0..len).prop_map(Damage::Cut),
        (0..reach, 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (0..reach, any::<u8>()).prop_map(|(at, value)| Damage::Fill(at, value)),
    ]
}

/// A GGUF with a short vocabulary, so that most of its header is structure.
static GGUF: LazyLock<Vec<u8>> = LazyLock::new(|| fs::read(data("gguf/q4_1.gguf")).unwrap());
static SPLIT: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let part = |n| fs::read(data(&format!("gguf/split/model-{n:05}-of-00003.gguf"))).unwrap();
    (1..=3).map(part).collect()
});
static DRAFT: LazyLock<Vec<u8>> = LazyLock::new(|| fs::read(data("draft/gguf/q4_0.gguf")).unwrap());
static LLAMA: LazyLock<TinyLlama> = LazyLock::new(|| TinyLlama {
    layers: 1,
    hidden: 16,
    heads: 2,
    kv_heads: 1,
    ffn: 16,
    ..TinyLlama::default()
});
static TENSORS: LazyLock<Vec<u8>> = LazyLock::new(|| LLAMA.tensors().to_bytes());

struct Target {
    _temp: TempDir,
    dir: PathBuf,
}

fn target() -> Target {
    let temp = tempfile::tempdir().unwrap();
    let dir = LLAMA.write(&temp.path().join("model"));
    Target { _temp: temp, dir }
}

/// A load that ends without a panic; whatever loads is small.
fn settle(result: Result<dflash_models::LoadedTarget, ModelError>) {
    match result {
        Ok(loaded) => assert!(loaded.weight_bytes < 1 << 20),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gguf(damage in damage(13_000, 50_000)) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.gguf");
        fs::write(&path, damage.apply(GGUF.clone())).unwrap();
        settle(load(&path, &backend()));
    }

    #[test]
    fn gguf_front(damage in damage(800, 1_200)) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.gguf");
        fs::write(&path, damage.apply(GGUF.clone())).unwrap();
        settle(load(&path, &backend()));
    }

    #[test]
    fn safetensors(damage in damage(1_400, 12_000)) {
        let target = target();
        fs::write(target.dir.join("model.safetensors"), damage.apply(TENSORS.clone())).unwrap();
        settle(load(&target.dir, &backend()));
    }

    #[test]
    fn config(damage in damage(700, 700)) {
        let target = target();
        let path = target.dir.join("config.json");
        fs::write(&path, damage.apply(fs::read(&path).unwrap())).unwrap();
        settle(load(&target.dir, &backend()));
    }

    #[test]
    fn index(damage in damage(1_500, 2_000)) {
        let temp = tempfile::tempdir().unwrap();
        let dir = common::copy_dir(&data("llama/sharded"), temp.path(), "config.json");
        let path = dir.join("model.safetensors.index.json");
        fs::write(&path, damage.apply(fs::read(&path).unwrap())).unwrap();
        settle(load(&dir, &backend()));
    }

    #[test]
    fn split_gguf(part in 1..4usize, given in 1..4usize, damage in damage(1_800, 20_000)) {
        let temp = tempfile::tempdir().unwrap();
        let name = |part: usize| temp.path().join(format!("model-{part:05}-of-00003.gguf"));
        for (index, bytes) in SPLIT.iter().enumerate() {
            let bytes = if index + 1 == part { damage.apply(bytes.clone()) } else { bytes.clone() };
            fs::write(name(index + 1), bytes).unwrap();
        }
        settle(load(&name(given), &backend()));
    }

    #[test]
    fn shard(shard in 1..4usize, damage in damage(1_400, 20_000)) {
        let temp = tempfile::tempdir().unwrap();
        let dir = common::copy_dir(&data("llama/sharded"), temp.path(), "config.json");
        let path = dir.join(format!("model-{shard:05}-of-00003.safetensors"));
        fs::write(&path, damage.apply(fs::read(&path).unwrap())).unwrap();
        settle(load(&dir, &backend()));
    }

    #[test]
    fn quantization(damage in damage(140, 140)) {
        let target = target();
        let mut config: serde_json::Value =
            serde_json::from_slice(&fs::read(target.dir.join("config.json")).unwrap()).unwrap();
        let section = r#"{"group_size":32,"bits":4,"mode":"affine","model.layers.0.mlp.up_proj":{"bits":8,"group_size":32},"lm_head":false}"#;
        let section = damage.apply(section.as_bytes().to_vec());
        let Ok(section) = serde_json::from_slice::<serde_json::Value>(&section) else { return Ok(()) };
        config["quantization"] = section;
        fs::write(target.dir.join("config.json"), config.to_string()).unwrap();
        settle(load(&target.dir, &backend()));
    }

    #[test]
    fn draft_gguf(damage in damage(4_200, 33_000)) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("draft.gguf");
        fs::write(&path, damage.apply(DRAFT.clone())).unwrap();
        let target = common::cycles::target(&backend());
        if let Err(error) = Draft::load(&path, target.as_ref(), DraftOptions::default()) {
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn draft_config(damage in damage(700, 700)) {
        let target = target();
        let dir = TinyDraft { taps: vec![0], ..TinyDraft::default() }.write(&target.dir.join("draft"), &LLAMA);
        let path = dir.join("config.json");
        fs::write(&path, damage.apply(fs::read(&path).unwrap())).unwrap();
        let loaded = load(&target.dir, &backend()).unwrap();
        if let Err(error) = Draft::load(&dir, loaded.target.as_ref(), DraftOptions::default()) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Every truncation of a GGUF fails: nothing of it is optional.
#[test]
fn every_cut_of_a_gguf_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.gguf");
    let backend = backend();
    for end in (1..GGUF.len()).step_by(61).chain([GGUF.len() - 1]) {
        fs::write(&path, &GGUF[..end]).unwrap();
        let error = load(&path, &backend).err().unwrap_or_else(|| panic!("{end} bytes load"));
        assert!(matches!(error, ModelError::Damaged { .. }), "{end}: {error}");
    }
}

/// Every truncation of a part fails, whichever part is given.
#[test]
fn every_cut_of_a_part_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let name = |part: usize| temp.path().join(format!("model-{part:05}-of-00003.gguf"));
    let backend = backend();
    for (index, bytes) in SPLIT.iter().enumerate() {
        SPLIT.iter().enumerate().for_each(|(i, bytes)| fs::write(name(i + 1), bytes).unwrap());
        for end in (1..bytes.len()).step_by(577).chain([bytes.len() - 1]) {
            fs::write(name(index + 1), &bytes[..end]).unwrap();
            for given in 1..=3 {
                let error = load(&name(given), &backend).err().expect("a cut part");
                assert!(matches!(error, ModelError::Damaged { .. }), "{end} of part {}: {error}", index + 1);
            }
        }
    }
}

/// Counts that promise more than the file holds.
#[test]
fn huge_counts_are_errors() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.gguf");
    for at in [8, 16, 24] {
        for count in [u64::MAX, u64::MAX / 2, 1 << 40, 1 << 20] {
            let mut bytes = GGUF.clone();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            fs::write(&path, bytes).unwrap();
            let error = load(&path, &backend()).err().expect("a count beyond the file");
            assert!(matches!(error, ModelError::Damaged { .. }), "{at} {count}: {error}");
        }
    }
    for length in [u64::MAX, 1 << 62, 1 << 30] {
        let target = target();
        let mut bytes = TENSORS.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        fs::write(target.dir.join("model.safetensors"), bytes).unwrap();
        let error = load(&target.dir, &backend()).err().expect("a header beyond the file");
        assert!(matches!(error, ModelError::Incomplete { .. }), "{length}: {error}");
    }
}
