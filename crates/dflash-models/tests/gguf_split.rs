//! GGUF models in parts: any part loads the whole, and each way of being incomplete has its message.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::gguf::{GgufParts, I32, TEXT, U16, U32, text};
use common::{assert_says, backend, data, load, refused, run};
use dflash_models::ModelError;
use tempfile::TempDir;

const PARTS: usize = 3;

fn name(part: usize) -> String {
    format!("model-{part:05}-of-{PARTS:05}.gguf")
}

/// A copy of the split model; parts are counted from one.
struct Split {
    _temp: TempDir,
    dir: PathBuf,
}

impl Split {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().to_owned();
        (1..=PARTS)
            .for_each(|part| drop(fs::copy(data("gguf/split").join(name(part)), dir.join(name(part)))));
        Self { _temp: temp, dir }
    }

    fn path(&self, part: usize) -> PathBuf {
        self.dir.join(name(part))
    }

    fn edit(&self, part: usize, edit: impl FnOnce(&mut GgufParts)) {
        let mut parts = GgufParts::read(&self.path(part));
        edit(&mut parts);
        parts.write(&self.path(part));
    }

    /// The error that every part gives.
    fn refused(&self) -> ModelError {
        let errors = (1..=PARTS).map(|part| refused(&self.path(part))).collect::<Vec<_>>();
        assert!(
            errors.iter().all(|error| std::mem::discriminant(error) == std::mem::discriminant(&errors[0]))
        );
        errors.into_iter().next().unwrap()
    }
}

fn logits(path: &Path) -> Vec<Vec<f32>> {
    let loaded = load(path, &backend()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    run(loaded.target.as_ref(), &[7, 80, 3], &[3], &[0]).logits
}

#[test]
fn any_part_loads_the_whole_model() {
    let whole = logits(&data("gguf/mixed-untied.gguf"));
    for part in 1..=PARTS {
        assert_eq!(whole, logits(&data("gguf/split").join(name(part))), "part {part}");
    }
    let loaded = load(&data("gguf/split").join(name(2)), &backend()).unwrap();
    assert_eq!(loaded.name.as_deref(), Some("tiny llama"), "keys come from the first part");
}

#[test]
fn missing_parts_are_listed() {
    let split = Split::new();
    fs::remove_file(split.path(1)).unwrap();
    fs::remove_file(split.path(3)).unwrap();
    let error = refused(&split.path(2));
    assert_says(&error, &["unfinished download", split.dir.to_str().unwrap()]);
    match error {
        ModelError::Incomplete { missing, short, .. } => {
            assert_eq!((missing, short), (vec![name(1), name(3)], vec![]));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn long_lists_of_missing_parts_are_cut() {
    let split = Split::new();
    split.edit(2, |part| part.set("split.count", U16, &4000u16.to_le_bytes()));
    let path = split.dir.join("model-00002-of-04000.gguf");
    fs::rename(split.path(2), &path).unwrap();
    let error = refused(&path);
    assert!(matches!(&error, ModelError::Incomplete { missing, .. } if missing.len() == 3999), "{error}");
    assert!(error.to_string().len() < 2000 && error.to_string().contains("and 3983 more"), "{error}");
}

#[test]
fn renamed_parts_are_found_out() {
    let split = Split::new();
    let renamed = split.dir.join("model-part-2.gguf");
    fs::copy(split.path(2), &renamed).unwrap();
    let error = refused(&renamed);
    assert!(matches!(error, ModelError::SplitGguf { .. }), "{error}");
    assert_says(&error, &["part 2 of 3", "must end in -00002-of-00003.gguf", "renamed"]);
    let (second, third) = (fs::read(split.path(2)).unwrap(), fs::read(split.path(3)).unwrap());
    fs::write(split.path(2), third).unwrap();
    fs::write(split.path(3), second).unwrap();
    assert_says(&refused(&split.path(1)), &[&name(2), "its header says part 3, its name part 2"]);
    assert_says(&refused(&split.path(2)), &[&name(2), "must end in -00003-of-00003.gguf"]);
}

#[test]
fn a_wrong_count_is_found_out() {
    let split = Split::new();
    split.edit(3, |part| part.set("split.count", U16, &4u16.to_le_bytes()));
    assert_says(&refused(&split.path(1)), &[&name(3), "one of 4 parts, its siblings are 3"]);
    assert_says(&refused(&split.path(3)), &[&name(3), "must end in -00003-of-00004.gguf"]);
    split.edit(3, |part| part.remove("split.count"));
    assert_says(&refused(&split.path(1)), &[&name(3), "does not say that it is a part"]);
}

#[test]
fn parts_of_different_models_are_found_out() {
    let split = Split::new();
    let mut tensors = 0;
    split.edit(3, |part| {
        tensors = part.tensors.len();
        part.set("split.tensors.count", I32, &99i32.to_le_bytes());
    });
    assert_says(&refused(&split.path(1)), &[&name(3), "a model of 99 tensors, its siblings to one of 21"]);
    let split = Split::new();
    split.edit(2, |part| part.set("general.name", TEXT, &text("another model")));
    let error = split.refused();
    assert!(matches!(error, ModelError::SplitGguf { .. }), "{error}");
    assert_says(&error, &[&name(2), "general.name", "another model", "tiny llama"]);
    let split = Split::new();
    split.edit(2, |part| part.set("general.name", TEXT, &text("tiny llama")));
    logits(&split.path(1));
}

#[test]
fn every_tensor_stands_in_one_part() {
    let split = Split::new();
    split.edit(2, |part| drop(part.tensors.pop()));
    assert_says(&split.refused(), &["promises 21 tensors, the parts hold 20"]);
    let split = Split::new();
    let extra = GgufParts::read(&split.path(1)).tensors[0].clone();
    let twice = extra.name.clone();
    split.edit(2, |part| {
        part.tensors.pop();
        part.tensors.push(extra);
    });
    let error = split.refused();
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &[&twice, &name(1), &name(2)]);
}

#[test]
fn keys_of_a_split_are_all_needed() {
    for key in ["split.no", "split.tensors.count"] {
        let split = Split::new();
        split.edit(2, |part| part.remove(key));
        let error = split.refused();
        assert!(matches!(&error, ModelError::MissingKey { key: found, .. } if found == key), "{error}");
    }
    let split = Split::new();
    split.edit(2, |part| part.set("split.no", U16, &3u16.to_le_bytes()));
    assert_says(&split.refused(), &["split.no", "is 3", "0 to 2"]);
    split.edit(2, |part| part.set("split.count", U32, &1_000_000u32.to_le_bytes()));
    assert_says(&split.refused(), &["split.count"]);
}

#[test]
fn damaged_parts_are_named() {
    let split = Split::new();
    let whole = fs::read(split.path(2)).unwrap();
    fs::write(split.path(2), &whole[..whole.len() - 40]).unwrap();
    let error = split.refused();
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    assert_says(&error, &[&name(2), "runs beyond the end"]);
    fs::write(split.path(2), b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n").unwrap();
    let error = split.refused();
    assert!(matches!(error, ModelError::LfsPointer { .. }), "{error}");
    assert_says(&error, &[&name(2), "git lfs pull"]);
}

#[test]
fn a_single_part_is_a_whole_model() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("any name.gguf");
    let mut whole = GgufParts::read(&data("gguf/mixed-untied.gguf"));
    whole.set("split.count", U16, &1u16.to_le_bytes());
    whole.set("split.no", U16, &0u16.to_le_bytes());
    whole.write(&path);
    assert_eq!(logits(&path), logits(&data("gguf/mixed-untied.gguf")));
}
