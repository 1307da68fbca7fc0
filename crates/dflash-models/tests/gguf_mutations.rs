//! GGUF metadata of every architecture with keys that are removed, of another type, or of a senseless value: a
//! load ends in an error that says what is wrong, or in a model that runs.

mod common;

use common::gguf::{ARRAY, BOOL, F32, GgufParts, I32, TEXT, U32, array, text};
use common::mutation::settle;
use common::{assert_says, backend, data, load, refused};
use proptest::prelude::*;

/// A file of every architecture.
const FILES: [&str; 9] = [
    "f16-llama3",
    "qwen2-f32",
    "qwen3-q8_0",
    "qwen3moe-f32",
    "qwen3next-r3-f32",
    "qwen35-r3-f32",
    "qwen35moe-r2-q8_0",
    "lfm2-f32",
    "gemma4-ple-f32",
];

/// What is done to one key.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Set(u32, Vec<u8>),
    /// Elements `range` of an array, the last one again where it ends before.
    Resize(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let number = |value: u32| Change::Set(U32, value.to_le_bytes().to_vec());
    let float = |value: f32| Change::Set(F32, value.to_le_bytes().to_vec());
    let numbers = |values: &[i32]| {
        let bytes = values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        Change::Set(ARRAY, array(I32, &bytes.iter().map(<[u8; 4]>::as_slice).collect::<Vec<_>>()))
    };
    let values = [
        vec![Change::Set(TEXT, text("none")), Change::Set(TEXT, text("yarn")), Change::Set(BOOL, vec![1])],
        [0, 1, 2, 3, 4, 7, 1 << 10, (1 << 21) - 2, 1 << 21, u32::MAX].map(number).to_vec(),
        [0.0, -1.0, 0.5, 1e-40, 1e38, f32::NAN, f32::INFINITY].map(float).to_vec(),
        vec![
            numbers(&[]),
            numbers(&[0, 0, 0, 0]),
            numbers(&[2, 2, 2, 2]),
            numbers(&[1, 0]),
            numbers(&[-1; 4]),
        ],
        vec![Change::Set(I32, (-1i32).to_le_bytes().to_vec())],
    ];
    prop_oneof![
        1 => Just(Change::Remove),
        1 => (0..9usize).prop_map(Change::Resize),
        6 => prop::sample::select(values.concat()),
    ]
}

impl Change {
    fn apply(&self, parts: &mut GgufParts, place: usize) {
        let place = place % parts.keys.len();
        let key = parts.keys[place].0.clone();
        match self {
            Self::Remove => parts.remove(&key),
            Self::Set(kind, value) => parts.set(&key, *kind, value),
            Self::Resize(count) => resize(&mut parts.keys[place], *count),
        }
    }
}

/// Changes the length of an array of integers or truth values.
fn resize((_, kind, value): &mut (String, u32, Vec<u8>), count: usize) {
    let width = match (*kind, value.first()) {
        (ARRAY, Some(4..=6)) => 4,
        (ARRAY, Some(7)) => 1,
        _ => return,
    };
    let last = value[value.len() - width..].to_vec();
    value[4..12].copy_from_slice(&(count as u64).to_le_bytes());
    value.truncate(12 + width * count);
    while value.len() < 12 + width * count {
        value.extend(&last);
    }
}

fn parts(name: &str) -> GgufParts {
    GgufParts::read(&data(&format!("gguf/{name}.gguf")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn senseless_metadata_ends_in_errors(
        name in prop::sample::select(FILES.to_vec()),
        changes in prop::collection::vec((0..1000usize, change()), 1..4),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let (path, mut parts) = (temp.path().join("x.gguf"), parts(name));
        changes.iter().for_each(|(place, change)| change.apply(&mut parts, *place));
        parts.write(&path);
        settle(load(&path, &backend()));
    }
}

/// A count that takes layers of the model for such that predict ahead would leave a shorter model.
#[test]
fn layers_without_nextn_tensors_are_no_prediction_layers() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.gguf");
    for (name, arch, count) in [("qwen35-r3-f32", "qwen35", 2u32), ("qwen35moe-r2-f32", "qwen35moe", 1)] {
        let mut parts = parts(name);
        parts.set(&format!("{arch}.nextn_predict_layers"), U32, &count.to_le_bytes());
        parts.write(&path);
        assert_says(&refused(&path), &["nextn_predict_layers", "last blocks that have nextn tensors"]);
    }
}
