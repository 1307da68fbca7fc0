//! Checkpoints of several safetensors files: each way of being incomplete or stale has its message.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{assert_says, backend, data, load, refused, tiny};
use dflash_models::ModelError;
use dflash_testkit::{Dtype, TensorFile, TinyLlama};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn a_missing_or_short_shard_is_named_with_its_siblings() {
    let temp = tempfile::tempdir().unwrap();
    let dir = common::copy_dir(&data("llama/sharded"), temp.path(), "config.json");
    let shard = |n: usize| dir.join(format!("model-0000{n}-of-00003.safetensors"));
    fs::remove_file(shard(2)).unwrap();
    let whole = fs::read(shard(3)).unwrap();
    fs::write(shard(3), &whole[..whole.len() - 1]).unwrap();
    assert_incomplete(&dir, &[2], &[3]);
    fs::write(shard(1), b"").unwrap();
    assert_incomplete(&dir, &[2], &[1, 3]);
    fs::remove_file(dir.join("model.safetensors.index.json")).unwrap();
    assert_incomplete(&dir, &[2], &[1, 3]);
}

fn assert_incomplete(dir: &Path, missing: &[usize], short: &[usize]) {
    let names = |list: &[usize]| {
        list.iter().map(|n| format!("model-0000{n}-of-00003.safetensors")).collect::<Vec<_>>()
    };
    let error = refused(dir);
    assert_says(&error, &["unfinished download"]);
    match error {
        ModelError::Incomplete { missing: m, short: s, .. } => {
            assert_eq!((m, s), (names(missing), names(short)))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn pointer_files_are_recognised() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let (_temp, dir) = tiny(&TinyLlama::default());
    fs::write(dir.join("model.safetensors"), pointer).unwrap();
    assert!(matches!(refused(&dir), ModelError::LfsPointer { .. }));
    let gguf = dir.join("model.gguf");
    fs::write(&gguf, pointer).unwrap();
    assert!(matches!(refused(&gguf), ModelError::LfsPointer { .. }));
}

/// A copy of the sharded checkpoint.
fn sharded() -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = common::copy_dir(&data("llama/sharded"), temp.path(), "config.json");
    (temp, dir)
}

fn shard(n: usize) -> String {
    format!("model-0000{n}-of-00003.safetensors")
}

fn edit_index(dir: &Path, edit: impl FnOnce(&mut Value)) {
    let path = dir.join("model.safetensors.index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut index["weight_map"]);
    fs::write(path, index.to_string()).unwrap();
}

#[test]
fn a_stale_index_is_refused() {
    let norm = "model.norm.weight";
    let (_temp, dir) = sharded();
    edit_index(&dir, |map| map[norm] = json!(shard(1)));
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &[norm, &shard(1), "does not hold it", &shard(3), "another version"]);

    let (_temp, dir) = sharded();
    edit_index(&dir, |map| map["model.extra.weight"] = json!(shard(2)));
    assert_says(&refused(&dir), &["model.extra.weight", &shard(2), "no file does"]);

    let (_temp, dir) = sharded();
    edit_index(&dir, |map| map[norm] = json!("model-00004-of-00004.safetensors"));
    let error = refused(&dir);
    assert!(
        matches!(&error, ModelError::Incomplete { missing, .. } if missing == &["model-00004-of-00004.safetensors"])
    );

    let (_temp, dir) = sharded();
    edit_index(&dir, |map| map[norm] = json!("../model-00003-of-00003.safetensors"));
    assert_says(&refused(&dir), &["weight_map.model.norm.weight", "same directory"]);

    let (_temp, dir) = sharded();
    fs::write(dir.join("model.safetensors.index.json"), "{}").unwrap();
    assert_says(&refused(&dir), &["weight_map"]);
}

#[test]
fn files_beside_the_index_are_noted_unless_they_repeat_it() {
    let (_temp, dir) = sharded();
    let extra = dir.join("model-extra.safetensors");
    let mut file = TensorFile::default();
    file.floats("something.else", &[2], &[1.0; 2], Dtype::F32);
    file.write(&extra);
    let loaded = load(&dir, &backend()).unwrap();
    assert_eq!(
        loaded.notes,
        ["files that model.safetensors.index.json does not name are not read: model-extra.safetensors"]
    );
    fs::write(&extra, b"no safetensors at all").unwrap();
    assert_eq!(load(&dir, &backend()).unwrap().notes.len(), 1);
    file.floats("model.norm.weight", &[2], &[1.0; 2], Dtype::F32);
    file.write(&extra);
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(
        &error,
        &["model-extra.safetensors", "model.norm.weight", &shard(3), "remove the wrong file"],
    );
}

#[test]
fn a_pointer_among_the_shards_is_recognised() {
    let (_temp, dir) = sharded();
    fs::write(dir.join(shard(2)), b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        .unwrap();
    let error = refused(&dir);
    assert!(matches!(error, ModelError::LfsPointer { .. }), "{error}");
    assert_says(&error, &[&shard(2), "git lfs pull"]);
}

#[test]
fn a_tensor_of_two_shards_is_refused() {
    let (_temp, dir) = sharded();
    fs::remove_file(dir.join("model.safetensors.index.json")).unwrap();
    fs::copy(dir.join(shard(3)), dir.join("model-old.safetensors")).unwrap();
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &["model-old.safetensors", &shard(3), "stands in it and in"]);
}

/// Rewrites the header of a safetensors file as text.
fn edit_header(path: &Path, edit: impl FnOnce(&str) -> String) {
    let bytes = fs::read(path).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = edit(std::str::from_utf8(&bytes[8..end]).unwrap());
    let edited = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[end..]].concat();
    fs::write(path, edited).unwrap();
}

#[test]
fn safetensors_that_share_bytes_are_refused() {
    let (_temp, dir) = tiny(&TinyLlama::default());
    let [first, second] = [0, 1].map(|layer| format!("model.layers.{layer}.mlp.up_proj.weight"));
    edit_header(&dir.join("model.safetensors"), |header| {
        let mut header: Value = serde_json::from_str(header).unwrap();
        header[&second]["data_offsets"] = header[&first]["data_offsets"].clone();
        header.to_string()
    });
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &[&first, &second, "share bytes"]);
}

#[test]
fn a_tensor_that_stands_twice_in_a_header_is_refused() {
    let (_temp, dir) = tiny(&TinyLlama::default());
    let [first, second] = [0, 1].map(|layer| format!("model.layers.{layer}.mlp.up_proj.weight"));
    edit_header(&dir.join("model.safetensors"), |header| header.replace(&second, &first));
    let error = refused(&dir);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &["model.safetensors", &first, "stands there twice"]);
}
