//! Gemma 4 against logits and taps that transformers computes in f32.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{assert_close, backends, copy_dir, data, goldens, load, read, run};
use dflash_models::Target;
use dflash_tensor::{Backend, Batch, SeqCache, Shape};

/// Of goldens whose keys and values are f16 too; everything else in these files is computed in f32. A few values
/// that are rounded the other way move a row by this much, in a model of two and of five layers.
const TOLERANCE: f64 = 5e-5;
const DEEP_TOLERANCE: f64 = 1e-3;

fn check(target: &dyn Target, golden: &Path, tolerance: f64) {
    let values = goldens(golden);
    let layers = (0..target.spec().layers).collect::<Vec<_>>();
    for n in 0.. {
        let Some(ids) = values.get(&format!("{n}.ids")).map(|ids| ids.ids()) else {
            return assert!(n > 0, "{} has runs", golden.display());
        };
        let logits = &values[&format!("{n}.logits")];
        let found = run(target, &ids, &[ids.len()], &layers);
        for row in 0..ids.len() {
            let what = format!("{} run {n} row {row}", golden.display());
            for &layer in &layers {
                let Some(tap) = values.get(&format!("{n}.tap.{layer}")) else { continue };
                let hidden = target.spec().hidden;
                let found = &found.taps[row][layer * hidden..][..hidden];
                assert_close(found, tap.row(row), tolerance, &format!("{what} tap {layer}"));
            }
            assert_close(&found.logits[row], logits.row(row), tolerance, &what);
        }
    }
}

fn check_hf(name: &str, tolerance: f64, notes: &[&str], backend: &Arc<dyn Backend>) {
    let dir = data("gemma4").join(name);
    let loaded = load(&dir, backend).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(loaded.target.spec().stop_ids, [1], "{name}");
    assert_eq!(loaded.target.spec().family, "gemma4", "{name}");
    assert_eq!(loaded.notes, notes, "{name}");
    check(loaded.target.as_ref(), &dir.join("golden.safetensors"), tolerance);
}

#[test]
fn dense_checkpoints_match_transformers() {
    for backend in backends() {
        check_hf("dense", TOLERANCE, &[], &backend);
        check_hf("bf16", TOLERANCE, &[], &backend);
        let ple = [
            "6 tensors of the vision and audio towers are not read",
            "3 key and value tensors of layers that share others' are not read",
        ];
        check_hf("ple", DEEP_TOLERANCE, &ple, &backend);
    }
}

#[test]
fn mixtures_of_experts_match_transformers() {
    for backend in backends() {
        check_hf("moe", TOLERANCE, &[], &backend);
        check_hf("mlx-moe", TOLERANCE, &[], &backend);
    }
}

#[test]
fn the_released_config_schema_gives_the_same_bits() {
    let backend = common::backend();
    for name in ["ple", "moe"] {
        let (new, temp) = (data("gemma4").join(name), tempfile::tempdir().unwrap());
        let old = copy_dir(&new, temp.path(), "config.released.json");
        let ids = [5, 9, 77, 3, 40];
        let [new, old] = [new, old].map(|dir| load(&dir, &backend).unwrap().target);
        let [new, old] = [new, old].map(|target| run(target.as_ref(), &ids, &[5], &[1]));
        assert_eq!((new.logits, new.taps), (old.logits, old.taps), "{name}");
    }
}

/// Name, and how far keys and values in f16, or activations in eight bits, may move logits.
const GGUF: &[(&str, f64)] = &[("ple-f32", 5e-3), ("ple-q8_0", 0.3), ("moe-f32", 5e-3), ("moe-q8_0", 0.3)];

#[test]
fn gguf_files_match_their_dequantised_weights() {
    for backend in backends() {
        for (name, tolerance) in GGUF {
            let loaded = load(&data(&format!("gguf/gemma4-{name}.gguf")), &backend);
            let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(loaded.notes.is_empty(), "{name}: {:?}", loaded.notes);
            let golden = data(&format!("gguf/gemma4-{name}.golden.safetensors"));
            check(loaded.target.as_ref(), &golden, *tolerance);
        }
    }
}

#[test]
fn rows_do_not_depend_on_the_pieces_they_come_in() {
    let paths = ["gemma4/ple", "gemma4/moe", "gemma4/bf16", "gguf/gemma4-moe-q8_0.gguf"];
    for backend in backends() {
        for path in paths {
            let target = load(&data(path), &backend).unwrap().target;
            let ids = (0..140u32).map(|i| 3 + i * 31 % 90).collect::<Vec<_>>();
            let taps = [1, 0];
            let whole = run(target.as_ref(), &ids, &[140], &taps);
            // The sliding window is 8: shorter and longer pieces, and some that end beside a block of 64.
            for pieces in [vec![1; 140], vec![63, 1, 1, 5, 70], vec![3, 9, 16, 33, 67, 12]] {
                let split = run(target.as_ref(), &ids, &pieces, &taps);
                assert_eq!(whole.logits, split.logits, "{path} {pieces:?}");
                assert_eq!(whole.taps, split.taps, "{path} {pieces:?}");
                assert_eq!(whole.choices, split.choices, "{path} {pieces:?}");
            }
        }
    }
}

/// Runs `ids` on the cache; logits of every row. The caller settles the cache.
fn rows(target: &dyn Target, cache: &mut SeqCache, ids: &[u32], shape: Shape) -> Vec<Vec<f32>> {
    let (mut ws, mut batch) = (target.workspace(), Batch::new());
    batch.push(ids, cache.len(), shape);
    cache.begin_verify(ids.len());
    target.forward(&mut ws, &batch, &mut [cache], None);
    let mut logits = target.backend().tensor(ids.len(), target.head().rows());
    target.logits(&ws, &(0..ids.len()).collect::<Vec<_>>(), &mut logits);
    read(target.backend(), &logits, 0..ids.len())
}

#[test]
fn rejected_rows_and_other_branches_leave_no_trace_when_windows_have_moved_on() {
    let target = load(&data("gemma4/ple"), &common::backend()).unwrap().target;
    let target = target.as_ref();
    let ids = (0..90u32).map(|i| 3 + i * 37 % 100).collect::<Vec<_>>();
    let truth = run(target, &ids, &[90], &[]).logits;
    // Beside the window of 8, and where blocks of 64 end.
    for start in [5, 7, 8, 9, 40, 63, 64, 70] {
        let (mut cache, next) = (target.new_cache(), &ids[start..start + 2]);
        rows(target, &mut cache, &ids[..start], Shape::Chain);
        cache.accept_chain(start);
        rows(target, &mut cache, &[next[0], 99, 98, 97, 96, 95, 94, 93, 92, 91], Shape::Chain);
        cache.accept_chain(0);
        let parents = vec![None, Some(0), Some(0), Some(1), Some(2)];
        let tree = rows(target, &mut cache, &[next[0], 50, next[1], 51, 52], Shape::Tree(parents.clone()));
        assert_eq!([&tree[0], &tree[2]], [&truth[start], &truth[start + 1]], "{start}");
        cache.accept_path(&parents, &[0, 2]);
        let rest = rows(target, &mut cache, &ids[start + 2..], Shape::Chain);
        assert_eq!(rest, truth[start + 2..], "{start}");
    }
}
