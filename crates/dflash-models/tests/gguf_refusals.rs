//! What the GGUF reader refuses, and that it says why.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{data, refused};
use dflash_models::ModelError;
use tempfile::TempDir;

fn assert_says(error: &ModelError, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} in {text:?}"));
}

/// A copy of a GGUF in which `edit` changed some bytes.
fn edited_gguf(edit: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model.gguf");
    let mut bytes = fs::read(data("gguf/q4_1.gguf")).unwrap();
    edit(&mut bytes);
    fs::write(&path, bytes).unwrap();
    (temp, path)
}

/// Where `text` first ends in `bytes`.
fn after(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("the text") + text.len()
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    bytes[at..at + with.len()].copy_from_slice(with);
}

#[test]
fn other_gguf_architectures_are_refused() {
    for (arch, draft) in [("gemma", false), ("eagle", true)] {
        let (_temp, path) = edited_gguf(|bytes| {
            // Type and length of the value stand between.
            let at = after(bytes, "general.architecture") + 12;
            overwrite(bytes, at, arch.as_bytes());
        });
        let error = refused(&path);
        assert_eq!(matches!(error, ModelError::DraftAsTarget { .. }), draft, "{error}");
        assert_says(&error, &[arch]);
    }
}

#[test]
fn gguf_formats_without_reader_are_refused_by_name() {
    for (id, name) in [(20u32, "IQ4_NL"), (22, "IQ2_S"), (34, "TQ1_0"), (39, "MXFP4"), (99, "GGUF type 99")] {
        let (_temp, path) = edited_gguf(|bytes| {
            // Number of dimensions and two dimensions stand between.
            let at = after(bytes, "blk.1.ffn_up.weight") + 4 + 16;
            overwrite(bytes, at, &id.to_le_bytes());
        });
        assert_says(&refused(&path), &["blk.1.ffn_up.weight", name, "Q8_0, Q4_0, Q4_1", "Q6_K"]);
    }
}

#[test]
fn unknown_gguf_tensors_are_not_ignored() {
    let (_temp, path) = edited_gguf(|bytes| {
        let at = after(bytes, "blk.1.ffn_u");
        overwrite(bytes, at, b"x");
    });
    assert_says(&refused(&path), &["blk.1.ffn_up.weight (model.layers.1.mlp.up_proj.weight)", "missing"]);
}

/// One layer's bytes for every layer would unfold a small file into a model of any size.
#[test]
fn gguf_tensors_that_share_bytes_are_refused() {
    let (_temp, path) = edited_gguf(|bytes| {
        // Number of dimensions, two dimensions and the type stand between.
        let offset = |name| after(bytes, name) + 4 + 16 + 4;
        let (first, second) = (offset("blk.0.ffn_up.weight"), offset("blk.1.ffn_up.weight"));
        bytes.copy_within(first..first + 8, second);
    });
    let error = refused(&path);
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &["blk.0.ffn_up.weight", "blk.1.ffn_up.weight", "share bytes"]);
}

#[test]
fn other_versions_of_gguf_are_refused() {
    let (_temp, path) = edited_gguf(|bytes| bytes[4] = 1);
    assert_says(&refused(&path), &["version 1"]);
}

/// A file of nothing but metadata.
fn metadata_only(entries: &[(&str, u32, &[u8])]) -> (TempDir, PathBuf) {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((entries.len() as u64).to_le_bytes());
    for (key, kind, value) in entries {
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(*value);
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (temp, path)
}

#[test]
fn metadata_that_is_absent_or_odd_is_named() {
    let (_temp, path) = metadata_only(&[("split.count", 2, &1u16.to_le_bytes())]);
    assert_says(&refused(&path), &["lacks the key `general.architecture`"]);
    let (_temp, path) = metadata_only(&[("general.architecture", 4, &1u32.to_le_bytes())]);
    assert_says(&refused(&path), &["general.architecture", "is 1", "a string"]);
    let (_temp, path) = metadata_only(&[("a", 7, &[1]), ("a", 7, &[1])]);
    assert_says(&refused(&path), &["damaged", "twice"]);
    let (_temp, path) = metadata_only(&[("a", 13, &[1])]);
    assert_says(&refused(&path), &["damaged", "value type 13"]);
    let (_temp, path) = metadata_only(&[("general.alignment", 4, &24u32.to_le_bytes())]);
    assert_says(&refused(&path), &["general.alignment"]);
}
