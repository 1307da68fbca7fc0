//! The command line, through the real binary.

mod common;

use common::Sandbox;

fn refused(args: &[&str]) -> String {
    let mut all = vec!["generate", "--prompt", "hi"];
    all.extend(args);
    let ran = Sandbox::new().run(&all);
    assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{args:?}");
    ran.stderr
}

#[test]
fn without_arguments_the_help_is_printed() {
    let ran = Sandbox::new().run(&[]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stderr, "");
    insta::assert_snapshot!("help", ran.stdout);
    assert_eq!(Sandbox::new().run(&["--help"]).stdout.lines().next(), ran.stdout.lines().next());
}

#[test]
fn every_command_has_help() {
    for command in ["generate", "benchmark", "doctor", "models"] {
        let ran = Sandbox::new().run(&[command, "--help"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command}");
        insta::assert_snapshot!(format!("help_{command}"), ran.stdout);
    }
}

#[test]
fn the_version_is_printed() {
    let ran = Sandbox::new().run(&["--version"]);
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("dflash {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn unknown_commands_and_flags_exit_with_two() {
    for args in [&["serv"][..], &["generate", "--prompt", "x", "--unheard-of"], &["models", "x"]] {
        let ran = Sandbox::new().run(args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    }
}

#[test]
fn bad_numbers_are_named() {
    for (flag, bad) in [
        ("--max-tokens", &["0", "-1", "1.5", "many", ""][..]),
        ("--prefill-step-size", &["0", "x"]),
        ("--draft-sink-size", &["-1", "x"]),
        ("--draft-window-size", &["0", "-5"]),
        ("--verify-len-cap", &["-1", "x"]),
        ("--block-tokens", &["0"]),
        ("--threads", &["0", "two"]),
        ("--verify-mode", &["fast", ""]),
        ("--draft-quant", &["w3", "w4:gs16", ""]),
        ("--model", &[""]),
        ("--draft", &[""]),
        ("--stop", &[""]),
    ] {
        for value in bad {
            let said = refused(&[&format!("{flag}={value}")]);
            assert!(said.starts_with(&format!("error: invalid value '{value}' for {flag}\n")), "{said}");
        }
    }
    assert!(refused(&["--max-tokens", "-3"]).contains("--max-tokens takes a whole number, 1 or more"));
}

#[test]
fn bad_variables_are_named() {
    for (name, value) in [
        ("DFLASH_PREFILL_STEP_SIZE", "0"),
        ("DFLASH_DRAFT_SINK_SIZE", "x"),
        ("DFLASH_DRAFT_WINDOW_SIZE", "0"),
        ("DFLASH_VERIFY_LEN_CAP", "-1"),
        ("DFLASH_VERIFY_MODE", "fast"),
        ("DFLASH_THREADS", "0"),
        ("DFLASH_OFFLINE", "maybe"),
        ("HF_HUB_OFFLINE", "2"),
    ] {
        let ran = Sandbox::new().var(name, value).run(&["generate", "--prompt", "hi"]);
        assert_eq!(ran.code, Some(2), "{name}");
        assert!(
            ran.stderr.starts_with(&format!("error: invalid value '{value}' for {name}\n")),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_known_and_not_obeyed_says_why() {
    let mut said = String::new();
    for args in [
        &["--target-fa-window", "512"][..],
        &["--wired-limit", "8GB"],
        &["--cache-limit"],
        &["--clear-cache-boundaries"],
        &["--no-clear-cache-boundaries"],
    ] {
        said += &format!("> {}\n{}", args.join(" "), refused(args));
    }
    insta::assert_snapshot!("refused", said);
}

#[test]
fn sampling_flags_that_cannot_be_obeyed_say_why() {
    let mut said = String::new();
    for args in [
        &["--temp", "warm"][..],
        &["--temp", "-1"],
        &["--temperature", "nan"],
        &["--temp", "1", "--top-p", "0"],
        &["--temp", "1", "--top-k", "-1"],
        &["--temp", "1", "--min-p", "2"],
        &["--repetition-penalty", "0"],
        &["--presence-penalty", "3"],
        &["--frequency-penalty", "inf"],
        &["--logit-bias", "5"],
        &["--logit-bias", "5=1000"],
        &["--logit-bias", "-5=1"],
        &["--logit-bias", "5=1", "--logit-bias", "5=2"],
        &["--temp", "1", "--seed", "-1"],
        &["--top-p", "0.9"],
        &["--top-k", "40"],
        &["--min-p", "0.05"],
        &["--seed", "1"],
        &["--logprobs", "5"],
        &["--json", "--logprobs", "21"],
    ] {
        said += &format!("> {}\n{}", args.join(" "), refused(args));
    }
    insta::assert_snapshot!("sampling", said);
}

#[test]
fn refused_variables_are_refused_too() {
    for (name, value) in [("DFLASH_TARGET_FA_WINDOW", "512"), ("DFLASH_CLEAR_CACHE_BOUNDARIES", "1")] {
        let ran = Sandbox::new().var(name, value).run(&["generate", "--prompt", "hi"]);
        assert_eq!(ran.code, Some(2), "{name}");
        assert!(ran.stderr.starts_with(&format!("error: {name}")), "{}", ran.stderr);
    }
}

#[test]
fn a_prompt_is_needed() {
    let ran = Sandbox::new().run(&["generate"]);
    insta::assert_snapshot!("no_prompt", ran.transcript());
    let ran = Sandbox::new().run(&["generate", "--prompt-file", "absent.txt"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("error: cannot read the prompt file absent.txt\ncaused by: "),
        "{}",
        ran.stderr
    );
    let both = Sandbox::new().run(&["generate", "--prompt", "a", "--prompt-file", "b"]);
    assert_eq!(both.code, Some(2));
}

#[test]
fn a_wrong_flag_is_told_before_the_pipe_is_read() {
    let ran = Sandbox::new().run_with_input(&["generate", "--max-tokens", "0"], b"\xff");
    assert!(ran.stderr.contains("--max-tokens"), "{}", ran.stderr);
}

#[test]
fn models_as_table() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path().join("cache/other")).unwrap();
    std::fs::write(sandbox.path().join("cache/other/file"), [0; 1500]).unwrap();
    let ran = sandbox.run(&["models"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!("models", ran.stdout);
}

#[test]
fn models_as_json() {
    let ran = Sandbox::new().run(&["models", "--json"]);
    let listing: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(listing["models"].as_array().unwrap().len(), 16);
    insta::assert_snapshot!(
        "models_json_first",
        serde_json::to_string_pretty(&listing["models"][0]).unwrap()
    );
    assert_eq!(listing["cache"]["dir"], "[DIR]/cache");
}

#[test]
fn models_knows_the_hub_cache() {
    let sandbox = Sandbox::new();
    for repo in ["models--z-lab--Qwen3-4B-DFlash-b16", "models--Qwen--Qwen3-4B", "models--Qwen--Qwen3-8B"] {
        let snapshot = sandbox.path().join(".cache/huggingface/hub").join(repo).join("snapshots/1");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        std::fs::write(snapshot.join("model.safetensors"), "x").unwrap();
    }
    let stdout = sandbox.run(&["models"]).stdout;
    let line = |name: &str| stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("Qwen3-4B ").trim_end().ends_with(" ready"));
    assert!(line("Qwen3-8B ").contains(" cached "));
    assert!(line("Qwen3.5-4B ").contains(" missing "));
}

#[test]
fn absurd_thread_counts_are_refused() {
    for count in ["0", "1025", "100000", "18446744073709551615", "-1", "two"] {
        let ran = Sandbox::new().run(&["generate", "--prompt", "x", "--threads", count]);
        assert_eq!(ran.code, Some(2), "{count}: {}", ran.stderr);
        assert!(ran.stderr.contains("from 1 to 1024"), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_takes_nothing_changes_no_exit_code() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dflash"));
    let status = command.args(["generate", "--prompt", "x", "--threads", "0"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
