//! `--curve`

use std::collections::BTreeSet;
use std::path::Path;

use dflash_testkit::{TinyDraft, TinyLlama};
use serde_json::Value;

use crate::common::{Ran, Sandbox};

fn model() -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data/gguf");
    data.join("mixed-untied.gguf").display().to_string()
}

/// A random draft of the model's sizes; its block is eight.
fn draft(sandbox: &Sandbox) -> String {
    let sizes = TinyLlama { hidden: 32, vocab: 288, layers: 2, ..TinyLlama::default() };
    let dir = sandbox.path().join("draft");
    TinyDraft { taps: vec![1, 0], block: 8, ..TinyDraft::default() }.write(&dir, &sizes);
    dir.display().to_string()
}

fn curve(sandbox: &Sandbox, draft: &str, more: &[&str]) -> Ran {
    let model = model();
    let args = ["benchmark", "--curve", "--model", &model, "--draft", draft, "--threads", "1"];
    let ran = sandbox.run(&[&args, more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn rows(points: &Value) -> Vec<u64> {
    points.as_array().unwrap().iter().map(|point| point["rows"].as_u64().unwrap()).collect()
}

#[test]
fn the_json_report_has_these_keys_and_they_agree() {
    let sandbox = Sandbox::new();
    let draft = draft(&sandbox);
    let report: Value = serde_json::from_str(&curve(&sandbox, &draft, &["--json"]).stdout).unwrap();
    let expected =
        ["pair", "build", "isa", "threads", "context", "bandwidth_gb_s", "gmac_s", "rows", "draft"];
    assert_eq!(keys(&report), BTreeSet::from(expected));
    assert_eq!(keys(&report["gmac_s"]), BTreeSet::from(["f32", "int4", "int6", "int8"]));
    assert!(report["pair"]["target"].as_str().unwrap().ends_with("mixed-untied.gguf"));
    assert_eq!(report["pair"]["draft"], "[DIR]/draft");
    assert_eq!((&report["threads"], &report["context"]), (&1.into(), &64.into()));
    assert!(report["build"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert_eq!(rows(&report["rows"]), [1, 2, 3, 4, 6, 8, 12, 16]);
    assert_eq!(rows(&report["draft"]), [2, 3, 4, 6, 8]);
    let one = report["rows"][0]["step_ms"].as_f64().unwrap();
    for point in report["rows"].as_array().unwrap() {
        let names = ["rows", "step_ms", "ratio", "floor_fraction", "step_without_logits_ms", "floor_ms"];
        assert_eq!(keys(point), BTreeSet::from(names));
        let number = |name: &str| point[name].as_f64().unwrap();
        assert!(names.iter().all(|name| number(name) > 0.0), "{point}");
        assert!((number("ratio") - number("step_ms") / one).abs() < 1e-6, "{point}");
        let fraction = number("floor_ms") / number("step_ms");
        assert!((number("floor_fraction") - fraction).abs() < 1e-6, "{point}");
    }
    for point in report["draft"].as_array().unwrap() {
        assert_eq!(keys(point), BTreeSet::from(["rows", "draft_ms", "floor_fraction", "floor_ms"]));
    }
}

#[test]
fn blocks_of_any_width_have_their_row_and_plain_decoding_has_no_draft() {
    let report = curve(&Sandbox::new(), "none", &["--json", "--block-tokens", "7"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(rows(&report["rows"]), [1, 2, 3, 4, 6, 7]);
    assert_eq!((&report["draft"], &report["pair"]["draft"]), (&Value::Array(vec![]), &"none".into()));
}

#[test]
fn people_get_tables() {
    let sandbox = Sandbox::new();
    let text = curve(&sandbox, &draft(&sandbox), &[]).stdout;
    let heads = ["target ", "draft ", "with ", "at best ", "Steps of the target", "Blocks of the draft"];
    for head in heads {
        assert!(text.lines().any(|line| line.starts_with(head)), "{head}: {text}");
    }
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with("8 ")).count(), 2, "{text}");
}

#[test]
fn what_it_measures_is_what_decoding_picks_widths_by() {
    let sandbox = Sandbox::new();
    let draft = draft(&sandbox);
    let (model, file) = (model(), sandbox.path().join("cache/step-costs.json"));
    let known = || -> Value { serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap() };
    let entry = || known().as_object().unwrap().values().next().unwrap().clone();
    let widths = || -> Vec<u64> {
        let points: Vec<(u64, f64)> = serde_json::from_value(entry()["value"]["verify"].clone()).unwrap();
        points.into_iter().map(|point| point.0).collect()
    };
    let generate = || {
        let args = ["generate", "--model", &model, "--draft", &draft, "--threads", "1"];
        let more = ["--prompt", "1 2 6", "--no-chat-template", "--max-tokens", "4"];
        let ran = sandbox.run(&[&args[..], &more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    };
    generate();
    assert_eq!(widths(), [1, 2, 4, 8, 16]);
    curve(&sandbox, &draft, &[]);
    assert_eq!(widths(), [1, 2, 3, 4, 6, 8, 12, 16], "the curve takes the place of what was known");
    let measured = known();
    generate();
    assert_eq!(known(), measured, "known costs are not measured again");
    let state = entry()["of"].clone();
    let config = Path::new(&draft).join("config.json");
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + "\n").unwrap();
    generate();
    assert_eq!(widths(), [1, 2, 4, 8, 16], "another draft in its place is measured");
    assert_ne!(entry()["of"], state);
    assert_eq!(known().as_object().unwrap().len(), 1, "nothing is left of the old one");
}
