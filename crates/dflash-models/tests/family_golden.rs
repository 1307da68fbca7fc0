//! Every family against logits and taps that transformers computes in f32, keys and values as halves.

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{backends, check_runs, data, goldens, load, run};
use dflash_tensor::Backend;

/// Distance of a row from the golden one, relative to its length.
const TOLERANCE: f64 = 1e-4;

/// Directories of the test data whose variants are checkpoints in HF layout, with `model_type`s.
const FAMILIES: [(&str, &str); 7] = [
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("qwen3_moe", "qwen3_moe"),
    ("qwen3_next", "qwen3_next"),
    ("qwen3_5", "qwen3_5"),
    ("qwen3_5_moe", "qwen3_5_moe"),
    ("lfm2", "lfm2"),
];

/// The variants of a family.
fn variants(family: &str) -> Vec<PathBuf> {
    let dir = std::fs::read_dir(data(family)).expect("test data");
    let mut variants = dir.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    variants.sort();
    assert!(variants.len() >= 2, "variants of {family}");
    variants
}

fn check(family: &str, kind: &str, backend: &Arc<dyn Backend>) {
    for variant in variants(family) {
        let loaded = load(&variant, backend).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.target.spec().family, kind);
        check_runs(loaded.target.as_ref(), &variant.join("golden.safetensors"), TOLERANCE);
    }
}

#[test]
fn checkpoints_match_transformers() {
    for backend in backends() {
        FAMILIES.iter().for_each(|(family, kind)| check(family, kind, &backend));
    }
}

/// Greedy ids agree wherever the two best logits are not too close to tell.
#[test]
fn greedy_ids_match_where_the_margin_is_clear() {
    let backend = common::backend();
    for variant in FAMILIES.iter().flat_map(|(family, _)| variants(family)) {
        let values = goldens(&variant.join("golden.safetensors"));
        let target = load(&variant, &backend).unwrap().target;
        let ids = values["3.ids"].ids();
        let found = run(target.as_ref(), &ids, &[ids.len()], &[]);
        let mut clear = 0;
        for (row, choice) in found.choices.iter().enumerate() {
            let mut order = values["3.logits"].row(row).iter().copied().enumerate().collect::<Vec<_>>();
            order.sort_by(|a, b| b.1.total_cmp(&a.1));
            if order[0].1 - order[1].1 > 1e-3 {
                assert_eq!(choice.id as usize, order[0].0, "{} row {row}", variant.display());
                clear += 1;
            }
        }
        assert!(clear * 10 > ids.len() * 9, "{} clear rows", variant.display());
    }
}

#[test]
fn rows_do_not_depend_on_the_pieces_they_come_in() {
    for backend in backends() {
        for variant in FAMILIES.iter().flat_map(|(family, _)| variants(family)) {
            let target = load(&variant, &backend).unwrap().target;
            let ids = (0..70u32).map(|i| 3 + i * 31 % 90).collect::<Vec<_>>();
            let taps = [1, 0];
            let whole = run(target.as_ref(), &ids, &[70], &taps);
            for pieces in [vec![1; 70], vec![63, 1, 1, 5], vec![2, 1, 14, 16, 32, 5]] {
                let split = run(target.as_ref(), &ids, &pieces, &taps);
                assert_eq!(whole.logits, split.logits, "{} {pieces:?}", variant.display());
                assert_eq!(whole.taps, split.taps, "{} {pieces:?}", variant.display());
                assert_eq!(whole.choices, split.choices, "{} {pieces:?}", variant.display());
            }
        }
    }
}

/// Wrapped and flat configs, old and new schemas: `config.*.json` beside a config means the same model.
#[test]
fn other_configs_of_a_checkpoint_give_the_same_bits() {
    let (backend, mut checked) = (common::backend(), 0);
    for variant in FAMILIES.iter().flat_map(|(family, _)| variants(family)) {
        for entry in std::fs::read_dir(&variant).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !(name.starts_with("config.") && name != "config.json") {
                continue;
            }
            let temp = tempfile::tempdir().unwrap();
            let other = common::copy_dir(&variant, temp.path(), &name);
            let ids = [5, 9, 77, 3, 40];
            let [here, there] = [variant.clone(), other].map(|dir| {
                let loaded = load(&dir, &backend);
                run(loaded.unwrap_or_else(|error| panic!("{error}")).target.as_ref(), &ids, &[5], &[1])
            });
            assert_eq!((here.logits, here.taps), (there.logits, there.taps), "{} {name}", variant.display());
            checked += 1;
        }
    }
    assert!(checked >= 3, "other configs");
}
