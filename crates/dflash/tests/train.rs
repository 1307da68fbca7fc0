//! `dflash train` on the real default pair, with the real binary.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use dflash_train::Sequence;
use dflash_train::data::{Shard, shards};
use serde_json::Value;

fn dflash(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dflash")).args(args).output().expect("the program starts")
}

fn succeed(args: &[&str]) -> String {
    let output = dflash(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn answers(folder: &Path) -> BTreeMap<u64, Sequence> {
    let read = |path| Shard::read(path).unwrap().sequences;
    let all = shards(folder).unwrap().iter().flat_map(|path| read(path)).collect::<Vec<_>>();
    let count = all.len();
    let by_source: BTreeMap<_, _> = all.into_iter().map(|sequence| (sequence.source, sequence)).collect();
    assert_eq!(by_source.len(), count, "no prompt comes twice");
    by_source
}

#[test]
fn answers_to_listed_prompts_are_those_of_generate() {
    let dir = tempfile::tempdir().unwrap();
    let (list, out) = (dir.path().join("prompts.jsonl"), dir.path().join("data"));
    let prompts = ["Name three colours.", "What is 2 + 3?", "Name three colours."];
    let lines = prompts.map(|prompt| serde_json::json!({ "prompt": prompt, "category": "test" }).to_string());
    std::fs::write(&list, lines.join("\n")).unwrap();
    succeed(&["train", "data", "--prompts", path(&list), "--out", path(&out), "--max-tokens", "12"]);
    let answers = answers(&out);
    assert_eq!(answers.len(), 2, "the second time is a duplicate");
    for (source, sequence) in answers {
        let prompt = prompts[source as usize];
        let report =
            succeed(&["generate", "--json", "--draft", "none", "--max-tokens", "12", "--prompt", prompt]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(serde_json::json!(sequence.answer()), report["ids"], "{prompt}");
        assert_eq!(sequence.category, "test");
    }
}

#[test]
fn self_made_data_does_not_depend_on_the_batch_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [alone, together] = ["alone", "together"].map(|name| dir.path().join(name));
    let make = |out: &Path, tokens: &str, batch: &str| {
        let out = path(out);
        succeed(&[
            "train",
            "data",
            "--out",
            out,
            "--tokens",
            tokens,
            "--max-tokens",
            "16",
            "--max-batch",
            batch,
        ])
    };
    make(&alone, "60", "1");
    make(&together, "60", "5");
    let first = answers(&together);
    // A later call keeps what is there and adds to it.
    make(&together, "120", "5");
    let more = answers(&together);
    assert!(more.len() > first.len());
    assert!(first.iter().all(|(source, sequence)| more.get(source) == Some(sequence)));
    let shared: Vec<_> =
        answers(&alone).into_iter().filter(|(source, _)| more.contains_key(source)).collect();
    assert!(!shared.is_empty());
    shared.iter().for_each(|(source, sequence)| assert_eq!(more.get(source), Some(sequence)));

    let other = dflash(&["train", "data", "--out", path(&together), "--seed", "3"]);
    assert!(!other.status.success());
    let error = String::from_utf8(other.stderr).unwrap();
    assert!(error.contains("choose another folder"), "{error}");
}

#[test]
fn a_draft_is_trained_exported_and_drafts() {
    let dir = tempfile::tempdir().unwrap();
    let [data, run, draft] = ["data", "run", "draft"].map(|name| dir.path().join(name));
    let refused = |args: &[&str], words: &[&str]| {
        let output = dflash(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        words.iter().for_each(|word| assert!(error.contains(word), "{word} in {error}"));
    };
    refused(
        &["train", "run", "--data", path(dir.path()), "--out", path(&run)],
        &["no answers", "train data"],
    );
    refused(&["train", "export", path(&run), "--out", path(&draft)], &["neither a run", "dflash train run"]);
    refused(
        &["train", "run", "--data", "x", "--out", "y", "--learning-rate", "nan"],
        &["--learning-rate", "above 0"],
    );

    succeed(&["train", "data", "--out", path(&data), "--tokens", "60", "--max-tokens", "16"]);
    let mut shape =
        vec!["--steps", "2", "--layers", "1", "--vocab", "64", "--sequences", "1", "--anchors", "4"];
    shape.extend(["--held-out", "1", "--markov-rank", "64"]);
    let train = [&["train", "run", "--data", path(&data), "--out", path(&run)][..], &shape].concat();
    assert_eq!(succeed(&train), "");
    assert_eq!(succeed(&train), "", "nothing is left to do");
    let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 3, "two steps and an evaluation");
    let other = [&train[..], &["--gamma", "2"]].concat();
    refused(&other, &["gamma is 4", "another --out"]);

    succeed(&["train", "export", path(&run), "--out", path(&draft), "--format", "mlx8"]);
    for folder in [&run, &draft] {
        let told = ["train", "evaluate", path(folder), "--prompt", "Hello", "--max-tokens", "6", "--json"];
        let told: Value = serde_json::from_str(&succeed(&told)).unwrap();
        let all = &told["evaluation"]["all"];
        assert!(all["prompts"] == 1 && all["cycles"].as_u64() <= all["tokens"].as_u64(), "{told}");
        let widths = told["speeds"].as_array().expect("speeds by width");
        assert!(
            widths.len() > 2 && widths.iter().all(|speed| speed["cycle_s"].as_f64() > Some(0.0)),
            "{told}"
        );
    }
    let checked = ["generate", "--draft", path(&draft), "--check", "--max-tokens", "12", "--prompt", "Hello"];
    succeed(&checked);
}
