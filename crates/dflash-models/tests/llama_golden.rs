//! Llama against logits and taps that transformers computes in f32.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{assert_close, backends, copy_dir, data, goldens, load, run};
use dflash_models::{Target, TextAssets};
use dflash_tensor::Backend;

const HF: &[&str] = &["tied", "untied", "rope-linear", "rope-llama3", "bf16", "f16", "sharded"];

/// Keys and values are stored as f16, everything else in these files is computed in f32.
const FLOAT_TOLERANCE: f64 = 2e-3;

fn check(target: &dyn Target, golden: &Path, tolerance: f64) {
    let values = goldens(golden);
    let layers = (0..target.spec().layers).collect::<Vec<_>>();
    for n in 0..3 {
        let ids = values[&format!("{n}.ids")].ids();
        let logits = &values[&format!("{n}.logits")];
        let found = run(target, &ids, &[ids.len()], &layers);
        for row in 0..ids.len() {
            let what = format!("{} run {n} row {row}", golden.display());
            assert_close(&found.logits[row], logits.row(row), tolerance, &what);
            for &layer in &layers {
                let Some(tap) = values.get(&format!("{n}.tap.{layer}")) else { continue };
                let hidden = target.spec().hidden;
                let found = &found.taps[row][layer * hidden..][..hidden];
                assert_close(found, tap.row(row), tolerance, &format!("{what} tap {layer}"));
            }
        }
    }
}

fn check_hf(name: &str, backend: &Arc<dyn Backend>) {
    let dir = data("llama").join(name);
    let loaded = load(&dir, backend).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(loaded.target.spec().stop_ids, [2], "{name}");
    assert!(matches!(&loaded.text, TextAssets::Hf { dir: text } if *text == dir), "{name}");
    assert!(loaded.notes.is_empty(), "{name}: {:?}", loaded.notes);
    check(loaded.target.as_ref(), &dir.join("golden.safetensors"), FLOAT_TOLERANCE);
}

#[test]
fn hf_checkpoints_match_transformers() {
    for backend in backends() {
        HF.iter().for_each(|name| check_hf(name, &backend));
    }
}

#[test]
fn the_older_config_schema_gives_the_same_bits() {
    let backend = common::backend();
    for name in HF {
        let (new, temp) = (data("llama").join(name), tempfile::tempdir().unwrap());
        let old = copy_dir(&new, temp.path(), "config.v4.json");
        let ids = [5, 9, 77, 3, 40];
        let [new, old] = [new, old].map(|dir| load(&dir, &backend).unwrap().target);
        let [new, old] = [new, old].map(|target| run(target.as_ref(), &ids, &[5], &[1]));
        assert_eq!((new.logits, new.taps), (old.logits, old.taps), "{name}");
    }
}

/// Name, and how far activations quantised to eight bits may move logits.
const GGUF: &[(&str, f64)] = &[
    ("f32", FLOAT_TOLERANCE),
    ("f16", FLOAT_TOLERANCE),
    ("bf16", FLOAT_TOLERANCE),
    ("f16-llama3", FLOAT_TOLERANCE),
    ("q8_0", 0.06),
    ("q4_0", 0.06),
    ("q4_1", 0.06),
    ("mixed", 0.06),
    ("mixed-untied", 0.06),
];

#[test]
fn gguf_files_match_their_dequantised_weights() {
    for backend in backends() {
        for (name, tolerance) in GGUF {
            let loaded = load(&data(&format!("gguf/{name}.gguf")), &backend);
            let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(loaded.target.spec().stop_ids, [2], "{name}");
            check(loaded.target.as_ref(), &data(&format!("gguf/{name}.golden.safetensors")), *tolerance);
        }
    }
}

#[test]
fn version_two_of_gguf_gives_the_same_bits() {
    let backend = common::backend();
    let run = |name: &str| run(load(&data(name), &backend).unwrap().target.as_ref(), &[7, 80, 3], &[3], &[0]);
    assert_eq!(run("gguf/f16.gguf").logits, run("gguf/f16-v2.gguf").logits);
}

#[test]
fn gguf_text_assets_are_complete() {
    let loaded = load(&data("gguf/mixed.gguf"), &common::backend()).unwrap();
    let TextAssets::Gguf(text) = loaded.text else { panic!("a GGUF brings its vocabulary") };
    assert_eq!((text.model.as_str(), text.pre.as_deref()), ("gpt2", Some("smollm")));
    assert_eq!((text.tokens.len(), text.token_types.len(), text.merges.len()), (288, 288, 18));
    assert_eq!(text.tokens[1], "<|im_start|>");
    assert_eq!((text.token_types[1], text.token_types[3], text.token_types[287]), (3, 1, 5));
    assert_eq!((text.bos_id, text.eos_id, text.unk_id, text.pad_id), (Some(1), Some(2), Some(0), Some(2)));
    assert_eq!((text.add_bos, text.add_eos), (Some(false), None));
    assert!(text.chat_template.unwrap().starts_with("{% for message in messages %}"));
}

#[test]
fn rows_do_not_depend_on_the_pieces_they_come_in() {
    for backend in backends() {
        for path in ["llama/tied", "llama/bf16", "gguf/q4_1.gguf", "gguf/mixed-untied.gguf"] {
            let target = load(&data(path), &backend).unwrap().target;
            let ids = (0..70u32).map(|i| 3 + i * 31 % 90).collect::<Vec<_>>();
            let taps = [1, 0];
            let whole = run(target.as_ref(), &ids, &[70], &taps);
            for pieces in [vec![1; 70], vec![63, 1, 1, 5], vec![16, 16, 33, 5]] {
                let split = run(target.as_ref(), &ids, &pieces, &taps);
                assert_eq!(whole.logits, split.logits, "{path} {pieces:?}");
                assert_eq!(whole.taps, split.taps, "{path} {pieces:?}");
                assert_eq!(whole.choices, split.choices, "{path} {pieces:?}");
            }
        }
    }
}
