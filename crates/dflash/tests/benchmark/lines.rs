//! Command lines that people already have, and what they mean here.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use dflash::cli::{Cli, Command};
use dflash::env::Environment;
use dflash::report::Outcome;
use dflash::request::{BenchmarkRequest, ComparisonRequest};

fn read(line: &[&str]) -> Outcome<BenchmarkRequest> {
    let args = ["dflash", "benchmark"].iter().chain(line);
    match Cli::try_parse_from(args).unwrap().command {
        Some(Command::Benchmark(args)) => BenchmarkRequest::read(&args, &Environment::default()),
        other => panic!("{other:?}"),
    }
}

fn comparison(line: &[&str]) -> ComparisonRequest {
    match read(line) {
        Ok(BenchmarkRequest::Comparison(request)) => request,
        other => panic!("{line:?}: {other:?}"),
    }
}

#[test]
fn lines_of_the_reference_are_understood() {
    let request = comparison(&["--suite", "humaneval", "--limit", "10"]);
    assert_eq!((request.suite.name(), request.max_tokens, request.repeat), ("humaneval", 64, 1));
    let line = ["--suite", "gsm8k", "--limit", "10", "--model", "Qwen/Qwen3.5-4B"];
    let request = comparison(&[&line[..], &["--draft", "z-lab/Qwen3.5-4B-DFlash"]].concat());
    assert_eq!((request.suite.name(), request.pair.model.as_str()), ("gsm8k", "Qwen/Qwen3.5-4B"));
    for line in [&["--suite", "longctx", "--ctx-tokens", "8192"][..], &["--ctx-tokens", "8192"]] {
        assert_eq!(comparison(line).suite.name(), "longctx");
    }
    let line = ["--suite", "math500", "--max-tokens", "1024", "--block-tokens", "16", "--repeat", "3"];
    let more = ["--cooldown", "60", "--draft-quant", "w4a16", "--out", "results/"];
    let request = comparison(&[&line[..], &more].concat());
    assert_eq!((request.max_tokens, request.repeat, request.cooldown), (1024, 3, Duration::from_secs(60)));
    assert_eq!(request.options.block_tokens.value, Some(16));
    assert_eq!(request.out, Some(PathBuf::from("results/")));
    assert!(request.options.draft_quant.value.is_some());
    let request = comparison(&["--prompt", "Why?", "--no-eos", "--only-dflash"]);
    assert!(!request.eos && request.only_dflash && request.memory && request.chat_template);
    assert_eq!(comparison(&["--suite", "aime25"]).max_tokens, 65536);
    let line = ["--no-memory", "--no-chat-template", "--wired-limit", "auto", "--cache-limit", "auto"];
    let request = comparison(&line);
    assert!(!request.memory && !request.chat_template);
    let line = ["--prompt-file", "prompts.jsonl", "--shuffle", "--seed", "7"];
    assert_eq!(comparison(&line).suite.seed(), Some(7));
}

#[test]
fn defaults_are_those_of_a_look() {
    let request = comparison(&[]);
    assert_eq!((request.suite.name(), request.max_tokens, request.repeat), ("smoke", 64, 1));
    assert_eq!((request.cooldown, request.oracle, request.out), (Duration::ZERO, None, None));
    assert!(request.eos && request.memory && request.chat_template && !request.only_dflash && !request.json);
}

#[test]
fn an_oracle_has_a_probability() {
    for (text, rate) in [("0", 0.0), ("0.8", 0.8), ("1", 1.0)] {
        assert_eq!(comparison(&["--oracle", text]).oracle, Some(rate));
    }
    assert!(read(&["--oracle", "-0.1"]).is_err());
}

#[test]
fn the_curve_stays_a_command_of_its_own() {
    assert!(matches!(read(&["--curve", "--json"]), Ok(BenchmarkRequest::Curve(request)) if request.json));
}
