//! Weights that are no numbers, or far too large, in any tensor of any family: the choice is an error or a
//! number, and no kernel turns a NaN into something else on the way.

mod common;

use std::fs;
use std::path::Path;

use common::{backends, copy_dir, data, load};
use dflash_models::Target;
use dflash_tensor::{Batch, Choice, Shape};
use serde_json::Value;

const CHECKPOINTS: [&str; 8] = [
    "llama/untied",
    "qwen3_5/wrapper-r3",
    "qwen3_5/flat-r1",
    "qwen3_next/mixed-r2",
    "qwen3_5_moe/fused",
    "lfm2/bias",
    "gemma4/moe",
    "gemma4/ple",
];

/// Names of the float tensors of a checkpoint, with the place of their bytes and their width.
fn tensors(bytes: &[u8]) -> Vec<(String, std::ops::Range<usize>, usize)> {
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..data]).unwrap();
    let place = |entry: &Value, end: usize| data + entry["data_offsets"][end].as_u64().unwrap() as usize;
    let tensor = |(name, entry): (&String, &Value)| {
        let width = match entry["dtype"].as_str()? {
            "F32" => 4,
            "BF16" => 2,
            _ => return None,
        };
        Some((name.clone(), place(entry, 0)..place(entry, 1), width))
    };
    header.as_object().unwrap().iter().filter_map(tensor).collect()
}

/// The checkpoint with every element of one tensor the upper `width` bytes of `value`.
fn fill(file: &Path, bytes: &[u8], range: std::ops::Range<usize>, width: usize, value: f32) {
    let mut bytes = bytes.to_vec();
    let element = value.to_le_bytes();
    bytes[range].chunks_mut(width).for_each(|place| place.copy_from_slice(&element[4 - width..]));
    fs::write(file, bytes).unwrap();
}

/// The choices after a few ids; `None` when one of them is an error.
fn choices(target: &dyn Target) -> Option<Vec<Choice>> {
    let (mut cache, mut ws, mut out) = (target.new_cache(), target.workspace(), Vec::new());
    let mut batch = Batch::new();
    batch.push(&[1, 2, 3, 4], 0, Shape::Chain);
    cache.begin_verify(4);
    target.forward(&mut ws, &batch, &mut [&mut cache], None);
    target.choose(&ws, &[0, 1, 2, 3], &mut out).ok().map(|()| out)
}

fn each_tensor(value: f32, check: impl Fn(&str, Option<Vec<Choice>>)) {
    for checkpoint in CHECKPOINTS {
        let temp = tempfile::tempdir().unwrap();
        let dir = copy_dir(&data(checkpoint), temp.path(), "config.json");
        let file = dir.join("model.safetensors");
        let bytes = fs::read(&file).unwrap();
        for (name, range, width) in tensors(&bytes) {
            fill(&file, &bytes, range, width, value);
            for backend in backends() {
                let loaded = load(&dir, &backend).unwrap_or_else(|error| panic!("{name}: {error}"));
                check(&format!("{checkpoint} {name}"), choices(loaded.target.as_ref()));
            }
        }
    }
}

/// Layers of `gemma4/ple` that have no keys of their own.
const SHARED: [usize; 2] = [3, 4];

/// Keys and values of layers that read those of others.
fn is_shared(name: &str) -> bool {
    let in_layer =
        |layer: usize| name.starts_with("gemma4/ple") && name.contains(&format!("layers.{layer}."));
    SHARED.iter().any(|&layer| in_layer(layer))
        && [".k_proj.", ".v_proj.", ".k_norm."].iter().any(|part| name.contains(part))
}

#[test]
fn a_tensor_of_nan_is_an_error() {
    each_tensor(f32::NAN, |name, choices| {
        // Towers and prediction layers are not read, and no row need take an expert.
        let unread = ["mtp.", "visual.", "vision", "audio", "experts.", "rotary"];
        let unread = unread.iter().any(|part| name.contains(part)) || is_shared(name);
        assert!(choices.is_none() || unread, "{name}");
    });
}

#[test]
fn a_tensor_of_huge_numbers_gives_numbers_or_an_error() {
    for value in [1e30, -1e30, 1e-40, f32::INFINITY, -0.0] {
        each_tensor(value, |name, choices| {
            let numbers = choices.iter().flatten().all(|choice| !choice.logit.is_nan());
            assert!(numbers, "{value} in {name}: {choices:?}");
        });
    }
}
