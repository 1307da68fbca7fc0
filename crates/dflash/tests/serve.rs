//! The command line of `serve`: what it takes, refuses, and passes over with a remark.

use std::fs;

use clap::Parser;
use dflash::cli::{Cli, Command};
use dflash::env::Environment;
use dflash::pair::DraftChoice;
use dflash::report::Outcome;
use dflash::serve::{ServeArgs, ServeRequest};
use dflash_engine::EngineOptions;

fn parse(flags: &[&str]) -> ServeArgs {
    match Cli::try_parse_from(["dflash", "serve"].iter().chain(flags)).unwrap().command {
        Some(Command::Serve(args)) => *args,
        other => panic!("{other:?}"),
    }
}

fn read(flags: &[&str], vars: &[(&str, &str)]) -> Outcome<ServeRequest> {
    ServeRequest::read(&parse(flags), &Environment::from_pairs(vars.iter().copied()))
}

fn said(flags: &[&str], vars: &[(&str, &str)]) -> String {
    read(flags, vars).unwrap_err().to_string()
}

#[test]
fn without_a_flag() {
    let request = read(&[], &[]).unwrap();
    assert_eq!(request.settings.address.to_string(), "127.0.0.1:8000");
    let prefix = request.engine.prefix;
    assert_eq!(request.engine, EngineOptions { max_batch: 8, waiting: 64, step_rows: None, prefix });
    assert_eq!((request.settings.max_tokens, request.settings.sampling.temperature), (512, 0.0));
    assert_eq!(request.settings.allowed_origins, ["*"]);
    assert_eq!(request.settings.request_timeout, None);
    assert!(request.settings.api_keys.is_empty() && request.remarks.is_empty());
    assert_eq!((request.pair.model.as_str(), &request.pair.draft), ("smollm2-135m", &DraftChoice::Paired));
}

#[test]
fn command_lines_of_the_reference_parse_unchanged() {
    for line in [
        "--model mlx-community/Qwen3.5-4B-4bit",
        "--model m --draft-model d --port 9000 --host 0.0.0.0",
        "--model m --draft d --draft-quant w4a16:gs64 --verify-mode adaptive",
        "--model m --temp 0.6 --top-p 0.95 --top-k 20 --min-p 0.05 --max-tokens 4096",
        "--model m --chat-template-args {\"enable_thinking\":false} --use-default-chat-template",
        "--model m --enable-thinking --fastpath-max-tokens 64 --prompt-cache-size 10 --log-level DEBUG",
        "--model m --diagnostics full --diagnostics-dir out --wired-limit auto --cache-limit 4294967296",
        "--model m --prefill-step-size 4096 --draft-sink-size 64 --draft-window-size 1024 --verify-len-cap 0",
        "--model m --prefix-cache --prefix-cache-max-entries 8 --prefix-cache-max-bytes 8GiB --max-snapshot-tokens 32000",
        "--model m --no-prefix-cache --no-prefix-cache-l2 --no-clear-cache-boundaries --dflash-max-ctx 16384",
        "--model m --prefix-cache-l2 --prefix-cache-l2-dir l2 --prefix-cache-l2-max-bytes 50GB --target-fa-window 0",
        "--model m --allowed-origins https://a.example,http://localhost:3000 --chat-template {{messages}}",
    ] {
        let flags: Vec<&str> = line.split(' ').collect();
        read(&flags, &[]).unwrap_or_else(|failure| panic!("{line}: {failure}"));
    }
}

#[test]
fn what_has_no_effect_is_told_in_one_line() {
    let remarks = |flags: &[&str], vars: &[(&str, &str)]| read(flags, vars).unwrap().remarks.join("\n");
    let all = ["--prefix-cache", "--cache-limit", "4GiB", "--prompt-cache-size", "10"];
    assert_eq!(
        remarks(&all, &[("DFLASH_PREFIX_CACHE_MAX_BYTES", "1g")]),
        "warning: --prompt-cache-size, --cache-limit have no effect: memory is sized when the models load"
    );
    for as_it_is in [
        &["--no-prefix-cache", "--no-prefix-cache-l2"] as &[&str],
        &["--wired-limit", "auto", "--cache-limit", "none"],
        &["--max-snapshot-tokens", "0", "--use-default-chat-template"],
    ] {
        assert_eq!(remarks(as_it_is, &[]), "");
    }
    assert!(
        remarks(&[], &[("DFLASH_CLEAR_CACHE_BOUNDARIES", "1")]).contains("DFLASH_CLEAR_CACHE_BOUNDARIES has")
    );
}

#[test]
fn what_is_kept_of_prompts() {
    let kept = |flags: &[&str], vars: &[(&str, &str)]| read(flags, vars).unwrap().engine.prefix;
    let usual = kept(&[], &[]).unwrap();
    assert_eq!((usual.entries, usual.longest), (64, 32_000));
    assert!(usual.bytes > 0 && usual.bytes <= 8 << 30);
    assert_eq!(kept(&["--no-prefix-cache"], &[]), None);
    assert_eq!(kept(&[], &[("DFLASH_PREFIX_CACHE", "off")]), None);
    assert!(kept(&["--prefix-cache"], &[("DFLASH_PREFIX_CACHE", "off")]).is_some());
    let vars = [("DFLASH_PREFIX_CACHE_MAX_ENTRIES", "3"), ("DFLASH_MAX_SNAPSHOT_TOKENS", "0")];
    let few = kept(&["--prefix-cache-max-bytes", "1MiB"], &vars).unwrap();
    assert_eq!((few.entries, few.bytes, few.longest), (3, 1 << 20, usize::MAX));
    let choice = read(&["--prefix-cache-l2-dir", "d", "--no-prefix-cache-l2"], &[]).unwrap().prefix;
    assert_eq!((choice.prefix_cache_l2.value, choice.prefix_cache_l2_dir.value), (false, Some("d".into())));
}

#[test]
fn what_would_change_the_text_is_refused() {
    assert!(
        said(&["--target-fa-window", "2048"], &[]).starts_with("error: --target-fa-window is not supported")
    );
    assert!(
        said(&[], &[("DFLASH_TARGET_FA_WINDOW", "1")]).contains("DFLASH_TARGET_FA_WINDOW is not supported")
    );
}

#[test]
fn flag_over_environment() {
    let vars = [
        ("DFLASH_HOST", "::1"),
        ("DFLASH_PORT", "1"),
        ("DFLASH_MODEL", "m"),
        ("DFLASH_DRAFT", "none"),
        ("DFLASH_MAX_BATCH", "2"),
        ("DFLASH_QUEUE", "0"),
        ("DFLASH_STEP_ROWS", "32"),
        ("DFLASH_TEMP", "0.5"),
        ("DFLASH_MAX_TOKENS", "9"),
        ("DFLASH_API_KEY", "k"),
        ("DFLASH_MAX_BODY", "1MiB"),
        ("DFLASH_REQUEST_TIMEOUT", "1.5"),
        ("DFLASH_MAX_CTX", "100"),
    ];
    let request = read(&[], &vars).unwrap();
    assert_eq!(request.settings.address.to_string(), "[::1]:1");
    assert_eq!((request.pair.model.as_str(), &request.pair.draft), ("m", &DraftChoice::None));
    let prefix = request.engine.prefix;
    assert_eq!(request.engine, EngineOptions { max_batch: 2, waiting: 0, step_rows: Some(32), prefix });
    assert_eq!((request.settings.sampling.temperature, request.settings.max_tokens), (0.5, 9));
    assert_eq!((request.settings.api_keys, request.settings.max_body_bytes), (vec!["k".to_owned()], 1 << 20));
    assert_eq!(request.settings.request_timeout.unwrap().as_secs_f64(), 1.5);
    assert_eq!(request.settings.speculative_prompt, Some(100));
    let request =
        read(&["--port", "2", "--host", "127.0.0.1", "--temp", "0", "--model", "n"], &vars).unwrap();
    assert_eq!(request.settings.address.to_string(), "127.0.0.1:2");
    assert_eq!((request.settings.sampling.temperature, request.pair.model.as_str()), (0.0, "n"));
}

#[test]
fn wrong_values_name_their_flag() {
    for (flag, values) in [
        ("--port", &["-1", "65536", "http"] as &[&str]),
        ("--host", &["no host", "256.0.0.1"]),
        ("--max-batch", &["0", "65", "x"]),
        ("--queue", &["-1", "4097"]),
        ("--step-rows", &["0"]),
        ("--temp", &["-1", "hot", "NaN"]),
        ("--top-p", &["0", "1.1"]),
        ("--max-tokens", &["0", "1.5"]),
        ("--max-body", &["0", "big"]),
        ("--request-timeout", &["-1", "inf", "x"]),
        ("--drain-timeout", &["x"]),
        ("--allowed-origins", &["example.com", "", "https://a/b"]),
        ("--chat-template-args", &["x", "[]", "{"]),
        ("--log-level", &["loud"]),
        ("--log-format", &["xml"]),
        ("--diagnostics", &["some"]),
        ("--api-key", &["two words", "é"]),
        ("--prefix-cache-max-bytes", &["many"]),
        ("--wired-limit", &["lots"]),
    ] {
        for value in values {
            let said = said(&[flag, value], &[]);
            assert!(said.starts_with("error: ") && said.contains(flag), "{flag} {value}: {said}");
        }
    }
}

#[test]
fn keys_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let path = path.to_str().unwrap();
    let keys = |text: &str| {
        fs::write(path, text).unwrap();
        read(&["--api-key-file", path, "--api-key", "typed"], &[]).map(|request| request.settings.api_keys)
    };
    assert_eq!(keys("one # mine\n\n# none\n  two\n").unwrap(), ["typed", "one", "two"]);
    for bad in ["", "# nothing\n", "two words\n"] {
        assert!(keys(bad).unwrap_err().to_string().contains("cannot use the key file"), "{bad:?}");
    }
    assert!(said(&["--api-key-file", "/no/such/file"], &[]).contains("/no/such/file"));
}

#[test]
fn templates_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jinja");
    fs::write(&path, "{{ messages }}").unwrap();
    let read = |given: &str| read(&["--chat-template", given], &[]);
    assert_eq!(read(&format!("@{}", path.display())).unwrap().template.as_deref(), Some("{{ messages }}"));
    assert_eq!(read("inline").unwrap().template.as_deref(), Some("inline"));
    assert!(read("@/no/such").unwrap_err().to_string().contains("cannot read the chat template /no/such"));
}

#[test]
fn others_that_can_reach_it_are_warned_of() {
    let warned = |flags: &[&str]| read(flags, &[]).unwrap().remarks.join("\n");
    assert_eq!(warned(&["--host", "localhost"]), "");
    assert!(warned(&["--host", "0.0.0.0"]).contains("no API key is set"));
    let with_key = warned(&["--host", "0.0.0.0", "--api-key", "k"]);
    assert!(with_key.starts_with("warning: ") && !with_key.contains("no API key"), "{with_key}");
}
