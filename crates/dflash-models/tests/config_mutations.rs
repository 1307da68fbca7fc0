//! Configs of every family with keys that are removed, of another type, or of a senseless value: a load ends in
//! an error that says what is wrong, or in a model that runs. Nothing panics and nothing takes more memory than
//! the files justify.

mod common;

use std::path::{Path, PathBuf};

use common::mutation::settle;
use common::{backend, copy_dir, data, edit_config, load};
use dflash_models::{Draft, DraftOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A checkpoint of every family and of every schema of its config.
const CHECKPOINTS: [&str; 12] = [
    "llama/rope-llama3",
    "qwen2/untied-bf16",
    "qwen3/untied-bf16",
    "qwen3_moe/mixed-bf16",
    "qwen3_next/mixed-r2",
    "qwen3_5/wrapper-r3",
    "qwen3_5/mlx-r2",
    "qwen3_5_moe/flat-separate-r3",
    "mlx/qwen3_5_moe-4bit-gs64",
    "lfm2/bias",
    "gemma4/mlx-moe",
    "gemma4/ple",
];

/// Pointers to every value of a document.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut enter = |name: &str, value: &Value| {
        let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        found.push(at.clone());
        pointers(value, &at, found);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| enter(name, value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, value)| enter(&i.to_string(), value)),
        _ => {}
    }
}

/// What is done to one value.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Repeat,
    Scale(f64),
    Set(Value),
}

fn change() -> impl Strategy<Value = Change> {
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(""),
        json!("full_attention"),
        json!("linear"),
        json!([]),
        json!({}),
        json!([1, 2]),
        json!(0),
        json!(1),
        json!(2),
        json!(3),
        json!(7),
        json!(-1),
        json!(0.5),
        json!(1e-30),
        json!(1e30),
        json!(1 << 16),
        json!((1 << 21) - 2),
        json!(1 << 21),
        json!(u64::MAX),
        json!(i64::MIN),
    ];
    prop_oneof![
        1 => Just(Change::Remove),
        1 => Just(Change::Repeat),
        3 => prop::sample::select(vec![0.5, 2.0, 3.0, -1.0, 1e6]).prop_map(Change::Scale),
        8 => prop::sample::select(values.to_vec()).prop_map(Change::Set),
    ]
}

impl Change {
    fn apply(&self, document: &mut Value, pointer: &str) {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer below the top");
        let name = name.replace("~1", "/").replace("~0", "~");
        // An earlier change may have taken the place away.
        let Some(parent) = document.pointer_mut(parent) else { return };
        match (self, parent) {
            (Self::Remove, Value::Object(map)) => drop(map.remove(&name)),
            (Self::Remove, Value::Array(list)) => drop(list.pop()),
            (Self::Repeat, Value::Array(list)) => list.extend(list.last().cloned()),
            (Self::Repeat, Value::Object(map)) => drop(map.insert(format!("{name}_2"), json!(2))),
            (_, parent) => self.replace(parent, &name),
        }
    }

    fn replace(&self, parent: &mut Value, name: &str) {
        let place = match parent {
            Value::Object(map) => map.get_mut(name),
            Value::Array(list) => name.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            _ => None,
        };
        let Some(place) = place else { return };
        *place = match (self, place.as_f64()) {
            (Self::Scale(factor), Some(number)) if place.is_u64() && number * factor >= 0.0 => {
                json!((number * factor) as u64)
            }
            (Self::Scale(factor), Some(number)) => json!(number * factor),
            (Self::Set(value), _) => value.clone(),
            _ => return,
        };
    }
}

/// Drafts of every layout, all for one target.
const DRAFTS: [&str; 5] = ["flat-f32", "yarn", "sliding", "speculators-own", "mlx-overrides"];

fn mutate(dir: &Path, changes: &[(usize, Change)]) {
    edit_config(dir, |config| {
        let mut places = Vec::new();
        pointers(config, "", &mut places);
        changes.iter().for_each(|(place, change)| change.apply(config, &places[place % places.len()]));
    });
}

fn copied(name: &str, temp: &tempfile::TempDir) -> PathBuf {
    copy_dir(&data(name), temp.path(), "config.json")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn senseless_configs_end_in_errors(
        name in prop::sample::select(CHECKPOINTS.to_vec()),
        changes in prop::collection::vec((0..1000usize, change()), 1..4),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let dir = copied(name, &temp);
        mutate(&dir, &changes);
        settle(load(&dir, &backend()));
    }

    #[test]
    fn senseless_configs_of_drafts_end_in_errors(
        name in prop::sample::select(DRAFTS.to_vec()),
        changes in prop::collection::vec((0..1000usize, change()), 1..4),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let dir = copied(&format!("draft/{name}"), &temp);
        mutate(&dir, &changes);
        let target = common::cycles::target(&backend());
        match Draft::load(&dir, target.as_ref(), DraftOptions::default()) {
            Ok(draft) => prop_assert!(draft.spec().weight_bytes < 1 << 22),
            Err(error) => prop_assert!(error.to_string().len() > 20, "{error}"),
        }
    }
}
