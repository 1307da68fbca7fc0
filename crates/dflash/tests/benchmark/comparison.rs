//! Prompts with and without the draft.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dflash_testkit::{TinyDraft, TinyLlama};
use serde_json::{Value, json};

use crate::common::{Ran, Sandbox};

/// Answers of the model end by themselves after 65, 35, never and 22 ids.
const PROMPTS: &str = r#"{"id": "n-1", "suite": "numbers", "prompt": "1 2 6"}
{"id": "w-1", "suite": "words", "prompt": "a"}
{"id": "w-2", "suite": "words", "prompt": "hello"}
{"id": "n-2", "suite": "numbers", "prompt": "0"}
"#;
const BLOCK: usize = 8;

/// A place with a model of one layer each, its draft and the prompts.
struct Bench {
    sandbox: Sandbox,
    args: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        Self::in_place(Sandbox::new())
    }

    fn in_place(sandbox: Sandbox) -> Self {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data/gguf");
        let sizes = TinyLlama { hidden: 32, vocab: 288, layers: 2, ..TinyLlama::default() };
        TinyDraft { block: BLOCK, ..TinyDraft::default() }.write(&sandbox.path().join("draft"), &sizes);
        fs::write(sandbox.path().join("prompts.jsonl"), PROMPTS).unwrap();
        let model = data.join("mixed-untied.gguf").display().to_string();
        let args = ["benchmark", "--model", &model, "--threads", "1", "--no-chat-template"];
        Self { args: args.map(str::to_owned).into(), sandbox }
    }

    fn run(&self, more: &[&str]) -> Ran {
        let args: Vec<&str> = self.args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.sandbox.run(&args)
    }

    /// All prompts with the draft into the folder `out`.
    fn all(&self, more: &[&str]) -> Ran {
        let all = ["--draft", "draft", "--prompt-file", "prompts.jsonl", "--out", "out"];
        let ran = self.run(&[&all, more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    }

    fn out(&self) -> PathBuf {
        self.sandbox.path().join("out")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.out().join(name)).unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn trials(&self) -> Vec<Value> {
        self.read("runs.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The hash of the ids that `generate` gives for a prompt.
    fn generated(&self, prompt: &str, max_tokens: &str) -> String {
        let mut args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        args[0] = "generate";
        args.extend(["--draft", "none", "--json", "--prompt", prompt, "--max-tokens", max_tokens]);
        let answer: Value = serde_json::from_str(&self.sandbox.run(&args).stdout).unwrap();
        answer["ids_sha256"].as_str().unwrap().to_owned()
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The answers of a leg to a prompt.
fn of<'a>(trials: &'a [Value], prompt: &str, leg: &str) -> Vec<&'a Value> {
    trials.iter().filter(|trial| trial["prompt"] == prompt && trial["leg"] == leg).collect()
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} instead of {expected}");
}

fn refused(more: &[&str]) -> Ran {
    let ran = Bench::new().run(more);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{more:?} {}", ran.stderr);
    ran
}

#[test]
fn every_file_is_there_and_they_agree() {
    let bench = Bench::new();
    let ran = bench.all(&["--max-tokens", "40", "--repeat", "2"]);
    let names: BTreeSet<String> = fs::read_dir(bench.out())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "invocation.json",
        "manifest.json",
        "report.html",
        "results.json",
        "runs.jsonl",
        "summary.json",
        "summary.md",
    ];
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(bench.read("results.json"), bench.read("summary.json"));

    let summary = bench.json("summary.json");
    assert_eq!((&summary["schema"], &summary["label"]), (&json!(1), &Value::Null));
    assert_eq!(summary["legs"], json!(["plain", "dflash", "ngram"]));
    assert_eq!(keys(&summary["categories"]), ["numbers", "words"], "in the order of the prompts");
    assert_eq!(summary["all"]["identical"], true);
    let ids: Vec<&str> =
        summary["prompts"].as_array().unwrap().iter().map(|prompt| prompt["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["n-1", "w-1", "w-2", "n-2"]);
    for prompt in summary["prompts"].as_array().unwrap() {
        let hashes: BTreeSet<&str> = prompt["legs"]
            .as_object()
            .unwrap()
            .values()
            .map(|leg| leg["ids_sha256"].as_str().unwrap())
            .collect();
        assert_eq!((hashes.len(), &prompt["identical"]), (1, &json!(true)), "{prompt}");
    }
    assert_eq!(summary["prompts"][2]["completion_tokens"], 40);
    assert_eq!(summary["prompts"][2]["legs"]["plain"]["ids_sha256"], bench.generated("hello", "40"));
    assert_eq!(summary["prompts"][3]["completion_tokens"], 22, "a stop id ends the answer");

    let manifest = bench.json("manifest.json");
    assert_eq!((&manifest["status"], &manifest["prompt_count"]), (&json!("complete"), &json!(4)));
    assert_eq!(manifest["prompt_ids"], json!(ids));
    assert_eq!(
        (&manifest["suite"], &summary["config"]["suite"]),
        (&json!("prompt-file"), &json!("prompt-file"))
    );
    assert_eq!(manifest["benchmark_summary"], summary["all"]);
    assert_eq!(manifest["git_sha"], Value::Null, "there is no repository");
    assert!(bench.json("invocation.json")["explicit_flags"].as_array().unwrap().contains(&json!("--repeat")));
    assert!(bench.read("report.html").to_ascii_lowercase().starts_with("<!doctype html>"));
    for text in [&ran.stdout, &bench.read("summary.md")] {
        assert!(text.contains("identical: every leg gave the same ids for all 4 prompts"), "{text}");
    }
    assert_eq!(ran.stderr, "report: out/report.html\n");
}

#[test]
fn rounds_go_there_and_back_and_every_number_is_that_of_its_runs() {
    let bench = Bench::new();
    bench.all(&["--max-tokens", "30", "--repeat", "2", "--verify-mode", "dflash"]);
    let (summary, trials) = (bench.json("summary.json"), bench.trials());
    let order: Vec<&str> = trials[..6].iter().map(|trial| trial["leg"].as_str().unwrap()).collect();
    assert_eq!(order, ["plain", "dflash", "ngram", "ngram", "dflash", "plain"]);
    assert_eq!(trials.len(), 4 * 2 * 3);

    let number = |trial: &Value, key: &str| trial[key].as_f64().unwrap();
    let seconds = |prompt: &str, leg: &str| {
        of(&trials, prompt, leg).iter().map(|trial| number(trial, "decode_s")).sum::<f64>() / 2.0
    };
    let tokens = |prompt: &str, leg: &str| number(of(&trials, prompt, leg)[0], "completion_tokens") - 1.0;
    let speed = |prompts: &[&str], leg: &str| {
        let (ids, took) = prompts
            .iter()
            .fold((0.0, 0.0), |(ids, took), prompt| (ids + tokens(prompt, leg), took + seconds(prompt, leg)));
        ids / took
    };
    let words = &summary["categories"]["words"];
    let both = ["w-1", "w-2"];
    assert_eq!(words["prompts"], 2);
    close(&words["plain_tok_s"], speed(&both, "plain"));
    close(&words["dflash_tok_s"], speed(&both, "dflash"));
    close(&words["speedup"], speed(&both, "dflash") / speed(&both, "plain"));
    close(&words["ngram_speedup"], speed(&both, "ngram") / speed(&both, "plain"));
    let each = both.map(|prompt| speed(&[prompt], "dflash") / speed(&[prompt], "plain"));
    close(&words["speedup_min"], each[0].min(each[1]));
    close(&words["speedup_max"], each[0].max(each[1]));
    let sum = |key| {
        both.iter()
            .flat_map(|prompt| of(&trials, prompt, "dflash"))
            .map(|trial| number(trial, key))
            .sum::<f64>()
    };
    close(&words["tokens_per_cycle"], sum("completion_tokens") / sum("cycles"));
    close(&words["acceptance_ratio"], sum("accepted") / sum("completion_tokens"));
    assert!(words["ceiling"].as_f64().unwrap() >= 1.0);
    let saved = both.map(|prompt| seconds(prompt, "plain") - seconds(prompt, "dflash"));
    close(&words["gained_s"], saved.iter().sum());
    let legs = || summary["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["legs"]["dflash"]);
    let cycles: u64 = legs().map(|leg| leg["cycles"].as_u64().unwrap()).sum();
    for key in ["cycles_by_width", "cycles_by_proposer"] {
        let told = summary["all"][key].as_object().unwrap();
        assert_eq!(told.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), cycles, "{told:?}");
    }

    let positions = summary["acceptance_by_position"].as_array().unwrap();
    // Copies may be longer than blocks of the draft.
    assert!((BLOCK - 1..16).contains(&positions.len()), "{positions:?}");
    let dflash = || trials.iter().filter(|trial| trial["leg"] == "dflash");
    let verified: f64 = dflash().map(|trial| number(trial, "drafted")).sum();
    assert_eq!(positions.iter().map(|position| number(position, "verified")).sum::<f64>(), verified);
    let split = &summary["time_split_s"];
    let whole: f64 = keys(split).iter().map(|key| number(split, key)).sum();
    close(&json!(whole), dflash().map(|trial| number(trial, "decode_s")).sum::<f64>() / 2.0);
    assert_eq!(keys(&summary["bandwidth"])[1..], ["plain_fraction", "dflash_fraction", "ngram_fraction"]);
    let rows: Vec<u64> =
        summary["costs"].as_array().unwrap().iter().map(|cost| cost["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [1, 2, 4, 8, 16]);
    let costs = &summary["costs"];
    assert!(costs[0]["draft_ms"].is_null() && costs[1]["draft_ms"].as_f64() > Some(0.0), "{costs}");
}

#[test]
fn the_json_on_standard_output_is_the_file() {
    let bench = Bench::new();
    let ran = bench.all(&["--max-tokens", "4", "--json", "--no-memory"]);
    assert_eq!(
        ran.stdout,
        bench.read("summary.json").replace(&bench.sandbox.path().display().to_string(), "[DIR]")
    );
    assert_eq!(bench.json("summary.json")["peak_memory_gb"], json!({}));
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_is_looked_at() {
    let bench = Bench::new();
    bench.all(&["--max-tokens", "4"]);
    let peaks = &bench.json("summary.json")["peak_memory_gb"];
    assert!(peaks.as_object().unwrap().values().all(|peak| peak.as_f64() > Some(0.0)), "{peaks}");
    assert!(peaks["plain"].is_number() || peaks["process"].is_number(), "{peaks}");
}

#[test]
fn without_an_end_answers_fill_their_room() {
    let bench = Bench::new();
    bench.all(&["--max-tokens", "80", "--no-eos"]);
    let summary = bench.json("summary.json");
    for prompt in summary["prompts"].as_array().unwrap() {
        assert_eq!(
            (&prompt["completion_tokens"], &prompt["identical"]),
            (&json!(80), &json!(true)),
            "{prompt}"
        );
    }
    assert_eq!(summary["config"]["stop_ids"], false);
}

#[test]
fn a_sure_oracle_fills_every_block_and_every_report_says_what_it_is() {
    let bench = Bench::new();
    let ran = bench.all(&["--max-tokens", "65", "--no-eos", "--oracle", "1", "--verify-mode", "dflash"]);
    let summary = bench.json("summary.json");
    let label = "ORACLE 1: a scripted draft, not a model";
    assert_eq!((&summary["label"], &bench.json("manifest.json")["label"]), (&json!(label), &json!(label)));
    assert!(ran.stdout.contains(label) && bench.read("summary.md").contains(label));
    assert_eq!(summary["legs"], json!(["plain", "dflash"]));
    for prompt in summary["prompts"].as_array().unwrap() {
        let leg = &prompt["legs"]["dflash"];
        // The first of 65 ids is that of prefill; eight times eight are left.
        assert_eq!((&leg["cycles"], &leg["cycles_by_width"]), (&json!(8), &json!({"8": 8})), "{leg}");
        assert_eq!(leg["cycles_by_proposer"], json!({"oracle": 8}));
        assert_eq!(prompt["identical"], true);
    }
    let rates = summary["acceptance_by_position"].as_array().unwrap();
    assert!(rates.iter().all(|position| position["rate"] == 1.0), "{rates:?}");
}

#[test]
fn an_oracle_that_knows_nothing_changes_no_id_and_needs_no_draft() {
    let bench = Bench::in_place(Sandbox::new().var("DFLASH_VERIFY_MODE", "dflash"));
    let ran = bench.run(&["--prompt", "hello", "--out", "out", "--oracle", "0", "--draft", "none"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary = bench.json("summary.json");
    assert_eq!(
        (&summary["all"]["identical"], &summary["all"]["acceptance_ratio"]),
        (&json!(true), &json!(0.0))
    );
    let leg = &summary["prompts"][0]["legs"]["dflash"];
    assert_eq!(leg["ids_sha256"], bench.generated("hello", "64"));
    assert!(leg["cycles_by_proposer"]["oracle"].as_u64() > Some(0), "{leg}");
}

#[test]
fn one_leg_alone_has_no_verdict() {
    for (args, leg) in [
        (&["--draft", "draft", "--only-dflash"][..], "dflash"),
        (&["--draft", "none"], "plain"),
        (&["--draft", "draft", "--verify-mode", "off"], "plain"),
    ] {
        let bench = Bench::new();
        let ran = bench.run(
            &[&["--prompt", "hello", "--out", "out", "--max-tokens", "9", "--repeat", "2"], args].concat(),
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("nothing to compare"), "{}", ran.stdout);
        let all = &bench.json("summary.json")["all"];
        assert_eq!((&all["identical"], &all["speedup"]), (&Value::Null, &Value::Null));
        assert!(all[format!("{leg}_tok_s")].is_number(), "{all}");
        assert_eq!(bench.trials().len(), 2);
    }
}

#[test]
fn a_draft_that_copies_is_no_third_leg() {
    let bench = Bench::new();
    let ran = bench.run(&["--prompt", "hello", "--out", "out", "--draft", "ngram", "--max-tokens", "20"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(bench.json("summary.json")["legs"], json!(["plain", "dflash"]));
}

#[test]
fn without_a_place_of_its_own_a_benchmark_gets_a_new_folder() {
    let bench = Bench::new();
    for _ in 0..2 {
        assert_eq!(bench.run(&["--prompt", "a", "--draft", "none", "--max-tokens", "2"]).code, Some(0));
    }
    let place = bench.sandbox.path().join(".artifacts/dflash/benchmarks");
    let names: Vec<String> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.contains("-prompt-mixed-untied.gguf")), "{names:?}");
}

#[test]
fn a_folder_with_a_benchmark_is_not_written_over() {
    let bench = Bench::new();
    bench.all(&["--max-tokens", "2"]);
    let before = bench.read("summary.json");
    let ran = bench.run(&["--prompt", "a", "--draft", "none", "--out", "out"]);
    let expected = "exit: Some(2)\n--- stdout\n--- stderr\nerror: out holds a benchmark already\n\
                    hint: pass --out with another directory, or leave it out for a new one\n";
    assert_eq!(ran.transcript(), expected);
    assert_eq!(bench.read("summary.json"), before);
}

#[test]
fn what_cannot_be_obeyed_is_refused_before_anything_is_loaded() {
    for (args, said) in [
        (
            &["--oracle", "1.5"][..],
            "error: invalid value '1.5' for --oracle\ncaused by: --oracle takes a probability",
        ),
        (&["--oracle", "NaN"], "error: invalid value 'NaN' for --oracle"),
        (&["--repeat", "0"], "error: invalid value '0' for --repeat"),
        (&["--cooldown", "-1"], "error: invalid value '-1' for --cooldown"),
        (&["--max-tokens", "0"], "error: invalid value '0' for --max-tokens"),
        (&["--draft", "none", "--only-dflash"], "error: --only-dflash with --draft none leaves nothing"),
        (&["--verify-mode", "off", "--oracle", "1"], "error: --oracle with --verify-mode off leaves nothing"),
        (&["--verify-mode", "off", "--only-dflash"], "error: --only-dflash with --verify-mode off leaves"),
        (
            &["--oracle", "0.5", "--only-dflash"],
            "error: the argument '--only-dflash' cannot be used with '--oracle",
        ),
        (&["--curve", "--repeat", "2"], "error: the argument '--curve' cannot be used with"),
        (&["--curve", "--suite", "smoke"], "error: the argument '--curve' cannot be used with"),
        (&["--wired-limit", "8GB"], "error: --wired-limit is not supported"),
    ] {
        // Clap names the arguments of a conflict in the order in which it finds them.
        let ran = refused(args);
        let swapped = "error: the argument '--oracle <RATE>' cannot be used with '--only-dflash'";
        assert!(ran.stderr.starts_with(said) || ran.stderr.starts_with(swapped), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_prompt_without_room_is_named() {
    let bench = Bench::new();
    let long = "word ".repeat(3000);
    let ran = bench.run(&["--prompt", &long, "--draft", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with("error: the prompt prompt has "), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn what_was_measured_before_an_interruption_is_kept() {
    use std::process::{Command, Stdio};
    let bench = Bench::new();
    let more = ["--draft", "draft", "--prompt-file", "prompts.jsonl", "--out", "out", "--max-tokens", "5"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_dflash"));
    command.args(&bench.args).args(more).args(["--only-dflash", "--cooldown", "3600"]);
    command.env("DFLASH_CACHE", bench.sandbox.path().join("cache")).current_dir(bench.sandbox.path());
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The pause after the first answer lasts until it is ended.
    while fs::read_to_string(bench.out().join("runs.jsonl")).map_or(0, |text| text.lines().count()) < 1 {
        assert!(run.try_wait().unwrap().is_none(), "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    let output = run.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    let told = "INCOMPLETE: interrupted after 1 of 4 prompts";
    assert!(String::from_utf8(output.stdout).unwrap().contains(told));
    let summary = bench.json("summary.json");
    assert_eq!((&summary["incomplete"], &summary["all"]["prompts"]), (&json!(told), &json!(1)));
    assert_eq!(bench.json("manifest.json")["status"], "incomplete");
    assert!(bench.read("report.html").contains(told));
    assert_eq!(bench.trials().len(), 1);
}
