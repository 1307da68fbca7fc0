//! Flag over environment over default, for every setting.

use clap::Parser;
use dflash::cli::{Cli, Command, GenerateArgs};
use dflash::env::Environment;
use dflash::options::{Options, VerifyMode};
use dflash::report::Outcome;
use dflash::sampling::SamplingChoice;
use dflash::setting::{Origin, Setting};
use dflash_engine::Sampling;

fn parse(flags: &[&str]) -> GenerateArgs {
    let args = ["dflash", "generate", "--prompt", "x"].iter().chain(flags);
    match Cli::try_parse_from(args).unwrap().command {
        Some(Command::Generate(args)) => *args,
        other => panic!("{other:?}"),
    }
}

fn resolve(flags: &[&str], vars: &[(&str, &str)]) -> Outcome<Options> {
    let args = parse(flags);
    Options::resolve(&args.pair, &args.runtime, &Environment::from_pairs(vars.iter().copied()))
}

type Show = fn(&Options) -> Setting<String>;

/// Flag with its value, variable with its value, and the three values that must come out.
struct Row {
    flag: &'static [&'static str],
    var: Option<(&'static str, &'static str)>,
    values: [&'static str; 3],
    show: Show,
}

const FLAGS_ONLY: &str = "";

fn rows() -> Vec<Row> {
    fn row(
        flag: &'static [&'static str],
        var: Option<(&'static str, &'static str)>,
        values: [&'static str; 3],
        show: Show,
    ) -> Row {
        Row { flag, var, values, show }
    }
    vec![
        row(
            &["--prefill-step-size", "7"],
            Some(("DFLASH_PREFILL_STEP_SIZE", "8")),
            ["7", "8", "2048"],
            |o| o.prefill_step_size.map(|v| v.to_string()),
        ),
        row(&["--draft-sink-size", "0"], Some(("DFLASH_DRAFT_SINK_SIZE", "8")), ["0", "8", "64"], |o| {
            o.draft_sink_size.map(|v| v.to_string())
        }),
        row(
            &["--draft-window-size", "7"],
            Some(("DFLASH_DRAFT_WINDOW_SIZE", "8")),
            ["7", "8", "1024"],
            |o| o.draft_window_size.map(|v| v.to_string()),
        ),
        row(&["--verify-len-cap", "7"], Some(("DFLASH_VERIFY_LEN_CAP", "8")), ["7", "8", "0"], |o| {
            o.verify_len_cap.map(|v| v.to_string())
        }),
        row(
            &["--verify-mode", "off"],
            Some(("DFLASH_VERIFY_MODE", "DFLASH")),
            ["Off", "Dflash", "Adaptive"],
            |o| o.verify_mode.map(|v| format!("{v:?}")),
        ),
        row(&["--threads", "3"], Some(("DFLASH_THREADS", "2")), ["Some(3)", "Some(2)", "None"], |o| {
            o.threads.map(|v| format!("{v:?}"))
        }),
        row(&["--offline"], Some(("DFLASH_OFFLINE", "yes")), ["true", "true", "false"], |o| {
            o.offline.map(|v| v.to_string())
        }),
        row(&["--offline"], Some(("HF_HUB_OFFLINE", "1")), ["true", "true", "false"], |o| {
            o.offline.map(|v| v.to_string())
        }),
        row(&["--block-tokens", "8"], None, ["Some(8)", FLAGS_ONLY, "None"], |o| {
            o.block_tokens.map(|v| format!("{v:?}"))
        }),
        row(&["--draft-quant", "W4"], None, ["w4a16:gs64", FLAGS_ONLY, "-"], |o| {
            o.draft_quant.map(|v| v.map_or("-".to_owned(), |v| v.to_string()))
        }),
    ]
}

#[test]
fn every_setting_takes_the_first_of_flag_environment_default() {
    for row in rows() {
        let vars: Vec<_> = row.var.into_iter().collect();
        let expect = |flags: &[&str], vars: &[(&str, &str)], value: &str, origin| {
            let shown = (row.show)(&resolve(flags, vars).unwrap());
            assert_eq!(shown, Setting::new(value.to_owned(), origin), "{:?} {:?}", row.flag, row.var);
        };
        expect(row.flag, &vars, row.values[0], Origin::Flag);
        expect(&[], &[], row.values[2], Origin::Default);
        if row.var.is_some() {
            expect(&[], &vars, row.values[1], Origin::Env);
        }
    }
}

#[test]
fn our_own_offline_variable_stands_before_the_shared_one() {
    let options = resolve(&[], &[("DFLASH_OFFLINE", "0"), ("HF_HUB_OFFLINE", "1")]).unwrap();
    assert_eq!(options.offline, Setting::new(false, Origin::Env));
}

#[test]
fn a_flag_hides_a_bad_variable() {
    let options = resolve(&["--verify-mode", "dflash"], &[("DFLASH_VERIFY_MODE", "ddtree")]).unwrap();
    assert_eq!(options.verify_mode, Setting::new(VerifyMode::Dflash, Origin::Flag));
}

#[test]
fn values_that_change_nothing_are_taken() {
    let args = ["--target-fa-window", "0", "--temp", "0.0", "--top-p", "1", "--top-k", "0", "--min-p", "0"];
    let limits = ["--wired-limit", "auto", "--cache-limit", "none"];
    let args = parse(&[&args[..], &limits].concat());
    assert!(sampling(&args).unwrap().params.is_plain());
    dflash::refused::check_memory(&args.runtime.refused, &Environment::default()).unwrap();
}

fn sampling(args: &GenerateArgs) -> Outcome<SamplingChoice> {
    SamplingChoice::read(&args.sampling, true, &Environment::default())
}

#[test]
fn every_sampling_flag_reaches_its_parameter() {
    let default = Sampling::default();
    let warm = Sampling { temperature: 0.7, seed: 5, ..default.clone() };
    let bias = |pairs: &[(u32, f64)]| pairs.iter().copied().collect();
    for (flags, expected) in [
        (&["--temp", "0.7", "--seed", "5"][..], warm.clone()),
        (&["--temperature", " 0.7 ", "--seed", "5"], warm.clone()),
        (&["--temp", "0.7", "--seed", "5", "--top-p", "0.9"], Sampling { top_p: 0.9, ..warm.clone() }),
        (&["--temp", "0.7", "--seed", "5", "--top-k", "40"], Sampling { top_k: 40, ..warm.clone() }),
        (&["--temp", "0.7", "--seed", "5", "--min-p", "0.05"], Sampling { min_p: 0.05, ..warm }),
        (
            &["--repetition-penalty", "1.1", "--temp", "0", "--seed", "0"],
            Sampling { repetition_penalty: 1.1, ..default.clone() },
        ),
        (
            &["--presence-penalty", "-0.5", "--temp", "0", "--seed", "0"],
            Sampling { presence_penalty: -0.5, ..default.clone() },
        ),
        (
            &["--frequency-penalty", "2", "--temp", "0", "--seed", "0"],
            Sampling { frequency_penalty: 2.0, ..default.clone() },
        ),
        (
            &["--logit-bias", "5=-100", "--logit-bias", "7 = 2.5", "--temp", "0", "--seed", "0"],
            Sampling { logit_bias: bias(&[(5, -100.0), (7, 2.5)]), ..default },
        ),
    ] {
        assert_eq!(*sampling(&parse(flags)).unwrap().params, expected, "{flags:?}");
    }
    assert_eq!(sampling(&parse(&["--logprobs", "20"])).unwrap().logprobs, Some(20));
    assert_eq!(sampling(&parse(&[])).unwrap().logprobs, None);
}

#[test]
fn a_seed_is_drawn_where_one_is_needed_and_told() {
    let drawn = || sampling(&parse(&["--temp", "1"])).unwrap().seed().unwrap();
    assert!((0..8).any(|_| drawn() != drawn()), "not the same again and again");
    assert!((0..100).all(|_| drawn() <= u64::from(u32::MAX)));
    assert_eq!(
        sampling(&parse(&["--temp", "1", "--seed", "18446744073709551615"])).unwrap().seed(),
        Some(u64::MAX)
    );
    for greedy in [&[][..], &["--temp", "0", "--seed", "4"], &["--temp", "1", "--top-k", "1"]] {
        assert_eq!(sampling(&parse(greedy)).unwrap().seed(), None, "{greedy:?}");
    }
}

#[test]
fn origins_are_reported_as_values_with_sources() {
    let options = resolve(&["--threads", "2"], &[("DFLASH_CACHE", "/c")]).unwrap();
    let json = serde_json::to_value(&options).unwrap();
    assert_eq!(json["threads"], serde_json::json!({"value": 2, "origin": "cli"}));
    assert_eq!(json["verify_mode"], serde_json::json!({"value": "adaptive", "origin": "default"}));
    assert_eq!(json["cache_dir"]["origin"], "env");
}

#[test]
fn without_a_home_only_the_cache_is_out_of_reach() {
    let options = resolve(&[], &[]).unwrap();
    assert!(options.cache().unwrap_err().hints()[0].contains("DFLASH_CACHE"));
}
