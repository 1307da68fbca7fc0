//! `generate`, `doctor` and a `serve` that cannot listen to their end, through the real binary, on tiny models.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// What the binary did, byte for byte: the sandbox of the other tests rewrites backslashes, and so breaks JSON.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// An empty home without PATH.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, b"")
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dflash"));
        command.args(args).env_clear().current_dir(self.path());
        command.envs([("HOME", self.path()), ("USERPROFILE", self.path())]);
        command.env("DFLASH_CACHE", self.path().join("cache"));
        // Windows programs do not start without it.
        command.envs(std::env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// With [`MODEL`] the answer is varied and repeats itself.
const PROMPT: &str = "1 2 6";
const MODEL: &str = "mixed-untied";

/// In the middle of the answer, over three ids, and begins inside the first of them.
const STOP: &str = "wou.";

const ANSWER_KEYS: [&str; 18] = [
    "text",
    "ids",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "prefill_s",
    "decode_s",
    "decode_tok_s",
    "cycles",
    "tokens_per_cycle",
    "acceptance_ratio",
    "acceptance_per_drafted",
    "cycles_by_width",
    "cycles_by_proposer",
    "accepted_by_position",
    "phases",
    "policy",
    "ids_sha256",
];

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data/gguf")
}

fn model(name: &str) -> String {
    models().join(name).with_extension("gguf").display().to_string()
}

/// `generate` on [`MODEL`], 64 ids unless `more` says otherwise.
fn generate(more: &[&str]) -> Ran {
    generate_in(&Home::new(), &["--prompt", PROMPT], more, b"")
}

fn generate_in(home: &Home, prompt: &[&str], more: &[&str], input: &[u8]) -> Ran {
    let model = model(MODEL);
    let mut args = vec!["generate", "--model", &model, "--no-chat-template"];
    for (flag, value) in [("--max-tokens", "64"), ("--draft", "none")] {
        if !more.contains(&flag) {
            args.extend([flag, value]);
        }
    }
    args.extend(prompt.iter().chain(more));
    let ran = home.run_with_input(&args, input);
    assert_eq!(ran.code, Some(0), "{args:?}\n{ran:#?}");
    ran
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}\n{ran:#?}"))
}

fn answer(more: &[&str]) -> Value {
    json(&generate(&[&["--json"], more].concat()))
}

fn ids(answer: &Value) -> Vec<u32> {
    serde_json::from_value(answer["ids"].clone()).unwrap()
}

fn text(answer: &Value) -> &str {
    answer["text"].as_str().unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn sha256(ids: &[u32]) -> String {
    let mut hash = Sha256::new();
    for id in ids {
        hash.update([*id as u8, (*id >> 8) as u8, (*id >> 16) as u8, (*id >> 24) as u8]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn standard_output_is_the_text_and_nothing_else() {
    for draft in ["none", "ngram"] {
        let expected = answer(&["--draft", draft]);
        assert!(!text(&expected).is_empty() && !text(&expected).ends_with('\n'));
        let ran = generate(&["--draft", draft]);
        assert_eq!(ran.stdout, format!("{}\n", text(&expected)), "{draft}");
        assert!(ran.stderr.contains("64"), "the figures are on standard error: {}", ran.stderr);
    }
}

#[test]
fn the_json_answer_has_these_keys_and_they_agree() {
    let answer = answer(&["--draft", "ngram", "--verify-mode", "dflash"]);
    assert_eq!(keys(&answer), BTreeSet::from(ANSWER_KEYS));
    let ids = ids(&answer);
    assert_eq!(answer["ids_sha256"], sha256(&ids));
    assert_eq!(answer["completion_tokens"], ids.len());
    assert_eq!(answer["prompt_tokens"], 5);
    let sum = |key: &str| answer[key].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(answer["cycles"], sum("cycles_by_width"));
    assert_eq!(answer["cycles"], sum("cycles_by_proposer"));
    assert!(answer["cycles_by_proposer"]["copy"].as_u64() > Some(0), "{answer}");
    assert!(answer["cycles"].as_u64() < Some(63), "copies were accepted: {answer}");
}

#[test]
fn the_json_check_has_both_answers() {
    let check = answer(&["--check", "--draft", "ngram", "--verify-mode", "dflash"]);
    let more = ["identical", "first_difference", "plain", "speedup"];
    assert_eq!(keys(&check), ANSWER_KEYS.into_iter().chain(more).collect());
    assert_eq!(keys(&check["plain"]), BTreeSet::from(ANSWER_KEYS));
    assert_eq!((&check["identical"], &check["first_difference"]), (&true.into(), &Value::Null));
    assert_eq!(check["ids"], check["plain"]["ids"]);
    assert_eq!(check["ids_sha256"], sha256(&ids(&check["plain"])));
    assert!(check["cycles_by_proposer"]["copy"].as_u64() > Some(0), "{check}");
    assert_eq!(keys(&check["plain"]["cycles_by_proposer"]), BTreeSet::from(["none"]));
    assert_eq!(check["plain"]["cycles"], 63);
}

#[test]
fn every_tiny_model_passes_its_check() {
    let mut models: Vec<_> =
        std::fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    assert!(models.len() >= 10, "{models:?}");
    for path in models {
        let path = path.display().to_string();
        let args = ["generate", "--check", "--prompt", PROMPT, "--max-tokens", "24", "--draft", "ngram"];
        let ran = Home::new().run(&[&args[..], &["--verify-mode", "dflash", "--model", &path]].concat());
        assert_eq!(ran.code, Some(0), "{path}\n{ran:#?}");
    }
}

#[test]
fn the_answer_ends_at_the_token_limit() {
    let all = ids(&answer(&[]));
    assert_eq!(all.len(), 64);
    for draft in ["none", "ngram"] {
        for limit in [1, 2, 7, 33] {
            let short =
                answer(&["--max-tokens", &limit.to_string(), "--draft", draft, "--verify-mode", "dflash"]);
            assert_eq!(ids(&short), all[..limit], "{draft}");
            assert_eq!(short["completion_tokens"], limit);
            assert_eq!(short["finish_reason"], "length");
        }
    }
}

#[test]
fn a_stop_string_cuts_the_text_and_ends_the_decoding() {
    let whole = answer(&[]);
    let at = text(&whole).find(STOP).expect("the stop string is in the answer");
    assert!(at > 0 && at + STOP.len() < text(&whole).len());
    let before = &text(&whole)[..at];
    for draft in ["none", "ngram"] {
        for stops in [&["--stop", STOP][..], &["--stop", "never said", "--stop", STOP]] {
            let more = [&["--draft", draft, "--verify-mode", "dflash"], stops].concat();
            let cut = answer(&more);
            assert_eq!(text(&cut), before, "{more:?}");
            assert_eq!(cut["finish_reason"], "stop", "{more:?}");
            let (cut, whole) = (ids(&cut), ids(&whole));
            assert!(cut.len() < whole.len(), "{more:?}: {} ids", cut.len());
            assert_eq!(cut, whole[..cut.len()], "{more:?}");
            assert_eq!(generate(&more).stdout, format!("{before}\n"), "{more:?}");
        }
    }
}

#[test]
fn no_setting_changes_the_ids() {
    let expected = ids(&answer(&["--threads", "1"]));
    for draft in ["none", "ngram"] {
        for setting in [
            ["--threads", "1"],
            ["--threads", "2"],
            ["--threads", "3"],
            ["--prefill-step-size", "1"],
            ["--prefill-step-size", "7"],
            ["--verify-mode", "off"],
            ["--verify-mode", "dflash"],
            ["--verify-mode", "adaptive"],
            ["--verify-len-cap", "3"],
            ["--block-tokens", "5"],
        ] {
            let answer = answer(&[&["--draft", draft], &setting[..]].concat());
            assert_eq!(ids(&answer), expected, "{draft} {setting:?}");
            if setting[1] == "off" {
                assert_eq!(keys(&answer["cycles_by_proposer"]), BTreeSet::from(["none"]));
            }
        }
    }
}

#[test]
fn a_prompt_is_the_same_wherever_it_comes_from() {
    let expected = ids(&answer(&[]));
    let home = Home::new();
    std::fs::write(home.path().join("prompt.txt"), format!("{PROMPT}\n")).unwrap();
    for (prompt, input) in [
        (&["--prompt-file", "prompt.txt"][..], ""),
        (&["--prompt-file", "-"], PROMPT),
        (&[], PROMPT),
        (&[], &format!("{PROMPT}\n")),
    ] {
        let answer = json(&generate_in(&home, prompt, &["--json"], input.as_bytes()));
        assert_eq!(ids(&answer), expected, "{prompt:?} {input:?}");
        assert_eq!(answer["prompt_tokens"], 5, "{prompt:?} {input:?}");
    }
}

#[test]
fn the_system_message_is_part_of_the_prompt() {
    let prompt_tokens = |more: &[&str]| {
        let model = model(MODEL);
        let args = ["generate", "--json", "--model", &model, "--draft", "none", "--max-tokens", "1"];
        let ran = Home::new().run(&[&args[..], &["--prompt", PROMPT], more].concat());
        json(&ran)["prompt_tokens"].as_u64().unwrap()
    };
    let (raw, chat) = (prompt_tokens(&["--no-chat-template"]), prompt_tokens(&[]));
    let (short, long) = (prompt_tokens(&["--system", "a"]), prompt_tokens(&["--system", "a b c d e f"]));
    assert!(raw < chat && chat < short && short < long, "{raw} {chat} {short} {long}");
}

fn doctor(home: &Home, more: &[&str]) -> (Option<i32>, Value) {
    let ran = home.run(&[&["doctor", "--json"], more].concat());
    (ran.code, json(&ran))
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

#[test]
fn doctor_finds_a_sound_pair_sound() {
    let model = model(MODEL);
    for draft in ["none", "ngram"] {
        let (code, report) = doctor(&Home::new(), &["--model", &model, "--draft", draft, "--threads", "1"]);
        assert_eq!(code, Some(0), "{report}");
        let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(|check| &check["name"]).collect();
        assert_eq!(names, ["options", "cpu", "bandwidth", "cache", "prefix", "pair", "memory"]);
        assert_eq!(report["summary"]["status"], "ok");
        assert_eq!(report["summary"]["checks"], 7);
        assert_eq!(check(&report, "pair")["details"]["names"]["draft"], draft);
    }
}

#[test]
fn doctor_and_the_loaded_pair_take_the_threads_asked_for() {
    let model = model(MODEL);
    // No machine takes both by itself.
    for (threads, backend) in [(1, "1 thread)"), (3, "3 threads)")] {
        let (_, report) =
            doctor(&Home::new(), &["--model", &model, "--draft", "none", "--threads", &threads.to_string()]);
        assert_eq!(check(&report, "cpu")["details"]["threads"], threads);
        assert_eq!(report["effective_config"]["threads"]["value"], threads);
        let named = check(&report, "pair")["details"]["backend"].as_str().unwrap();
        assert!(named.ends_with(backend), "{named}");
    }
}

#[test]
fn doctor_warns_of_what_was_not_fetched_yet() {
    let home = Home::new();
    let (code, report) = doctor(&home, &[]);
    assert_eq!(code, Some(2), "{report}");
    assert_eq!(check(&report, "pair")["status"], "warning");
    assert_eq!((&report["summary"]["status"], &report["summary"]["fatals"]), (&"warning".into(), &0.into()));
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, Some(2), "{told:#?}");
    assert!(!told.stdout.contains("FATAL"), "{}", told.stdout);
    assert_eq!(doctor(&home, &["--strict"]).0, Some(1));
}

#[test]
fn doctor_offline_calls_what_is_missing_fatal() {
    for more in [&["--offline"][..], &["--model", "absent.gguf"]] {
        let (code, report) = doctor(&Home::new(), more);
        assert_eq!(code, Some(1), "{more:?} {report}");
        assert_eq!(check(&report, "pair")["status"], "fatal", "{more:?}");
    }
}

/// A large model takes a while to load; what is missing beside it is said first.
#[test]
fn a_missing_tokenizer_is_told_before_the_weights_are_read() {
    let home = Home::new();
    let source = models().join("../qwen3/tied");
    let dir = home.path().join("model");
    std::fs::create_dir(&dir).unwrap();
    std::fs::copy(source.join("config.json"), dir.join("config.json")).unwrap();
    // No weights at all: reading them would be another error.
    let ran = home.run(&["generate", "--model", dir.to_str().unwrap(), "--draft", "none", "--prompt", "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("tokenizer.json") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

/// Who asks for `auto` is served without the paired draft, and told why.
#[test]
fn a_pair_without_its_draft_copies_from_the_context() {
    let home = Home::new();
    let model = models().join(format!("{MODEL}.gguf"));
    let run = |draft: &str| {
        let args = ["generate", "--model", model.to_str().unwrap(), "--draft", draft, "--no-chat-template"];
        home.run(&[&args[..], &["--prompt", PROMPT, "--max-tokens", "24"]].concat())
    };
    let (auto, plain) = (run("auto"), run("none"));
    assert_eq!((auto.code, auto.stdout), (Some(0), plain.stdout), "{}", auto.stderr);
    assert!(auto.stderr.contains("warning: only copying from the context drafts: "), "{}", auto.stderr);
}

#[test]
fn a_vocabulary_without_tokens_is_an_error() {
    let (home, key) = (Home::new(), b"tokenizer.ggml.token_type");
    let mut bytes = std::fs::read(models().join("mixed-untied.gguf")).unwrap();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    // Behind the key: array, type of its elements, their number, the elements. Five means unused.
    let count = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize;
    bytes[at + 16..at + 16 + 4 * count]
        .chunks_exact_mut(4)
        .for_each(|kind| kind.copy_from_slice(&[5, 0, 0, 0]));
    let path = home.path().join("unused.gguf");
    std::fs::write(&path, bytes).unwrap();
    let args = ["generate", "--model", path.to_str().unwrap(), "--draft", "none", "--no-chat-template"];
    let ran = home.run(&[&args[..], &["--prompt", "x"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("no token in use") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

/// Every flag of sampling at once.
const SAMPLED: [&str; 18] = [
    "--temp",
    "1.2",
    "--top-p",
    "0.98",
    "--top-k",
    "60",
    "--min-p",
    "0.01",
    "--repetition-penalty",
    "1.1",
    "--presence-penalty",
    "0.1",
    "--frequency-penalty",
    "0.1",
    "--logit-bias",
    "7=1",
    "--logprobs",
    "2",
];

#[test]
fn a_seed_that_was_drawn_is_told_and_gives_the_same_text_again() {
    let first = answer(&SAMPLED);
    let seed = first["seed"].as_u64().expect("a seed is told").to_string();
    let again =
        answer(&[&SAMPLED[..], &["--seed", &seed, "--draft", "ngram", "--verify-mode", "dflash"]].concat());
    assert_eq!((&again["ids"], &again["logprobs"]), (&first["ids"], &first["logprobs"]));
    assert!(again["acceptance_per_drafted"].as_f64().unwrap() < 1.0);
    let of_seed = |seed| answer(&[&SAMPLED[..], &["--seed", seed]].concat())["ids"].clone();
    assert_ne!(of_seed("123"), of_seed("124"));
    let line = generate(&["--temp", "1", "--seed", "77"]).stderr;
    assert!(line.contains(" | seed 77 | "), "{line}");
    assert!(!generate(&[]).stderr.contains("seed"), "greedy decoding draws nothing");
}

#[test]
fn log_probabilities_are_told_with_their_tokens() {
    for flags in [&["--logprobs", "3"][..], &["--logprobs", "3", "--temp", "1", "--seed", "4"]] {
        let answer = answer(flags);
        let (ids, told) = (ids(&answer), answer["logprobs"].as_array().unwrap());
        assert_eq!(told.len(), ids.len());
        let mut bytes = Vec::new();
        for (token, id) in told.iter().zip(ids) {
            assert_eq!(token["id"], id);
            assert_eq!(token["top"].as_array().unwrap().len(), 3);
            let best = token["top"][0]["logprob"].as_f64().unwrap();
            assert!(token["logprob"].as_f64().unwrap() <= best && best <= 0.0, "{token}");
            bytes.extend(serde_json::from_value::<Vec<u8>>(token["bytes"].clone()).unwrap());
        }
        // The text leaves control tokens out; the greedy answer has none.
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let drawn = flags.contains(&"--temp");
        assert!(drawn || shown.contains(text(&answer).trim()), "{shown:?} holds {:?}", text(&answer));
    }
    let none = answer(&["--logprobs", "0"]);
    assert_eq!(none["logprobs"][0]["top"].as_array().unwrap().len(), 0);
}

#[test]
fn check_samples_both_ways_with_one_seed() {
    let more = [&SAMPLED[..], &["--check", "--draft", "ngram", "--verify-mode", "dflash"]].concat();
    let checked = answer(&more);
    assert_eq!(checked["identical"], true);
    assert_eq!(checked["seed"], checked["plain"]["seed"]);
    let (plain, told) = (&checked["plain"], checked["plain"]["logprobs"].as_array().unwrap());
    assert_eq!(plain["completion_tokens"], told.len());
    let said = generate(&["--check", "--draft", "ngram", "--temp", "0.9", "--seed", "3"]);
    let verdict = said.stdout.lines().next().unwrap();
    assert!(verdict.starts_with("identical: ") && verdict.ends_with(" ids, seed 3"), "{verdict}");
}

#[test]
fn a_bias_for_a_token_that_the_model_has_not_names_the_flag() {
    let home = Home::new();
    let model = model(MODEL);
    let args = ["generate", "--model", &model, "--no-chat-template", "--draft", "none", "--prompt", PROMPT];
    let ran = home.run(&[&args[..], &["--logit-bias", "4000000=1"]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("logit_bias names id 4000000"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: --logit-bias takes ids"), "{}", ran.stderr);
}

#[test]
fn an_address_that_is_taken_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (model, port) = (model(MODEL), address.port().to_string());
    let ran = Home::new().run(&["serve", "--model", &model, "--draft", "none", "--port", &port]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains(&format!("error: cannot listen on {address}\ncaused by: ")), "{ran:#?}");
    assert!(ran.stderr.contains("hint: pass --host"), "{ran:#?}");
}
