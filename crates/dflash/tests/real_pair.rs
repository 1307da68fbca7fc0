//! The default pair, decoded for real: obtained like a user obtains it, from the cache or the package index.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Draft as FoundDraft, Locator, PairChoice};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::text::TextPipeline;
use dflash_cpu::CpuBackend;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Decoder, DecoderOptions, Decoding, Event, Proposer, Request, Stats, VerifyMode};
use dflash_models::{Draft, DraftOptions, DraftWorkspace, Taps, Target, load_target};
use dflash_tensor::{Batch, Shape};
use dflash_testkit::{RandomWidths, Rng};
use serde_json::Value;

struct Files {
    target: PathBuf,
    draft: PathBuf,
}

fn files() -> Files {
    let env = Environment::of_process();
    let options =
        Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env).expect("sound options");
    let locator =
        Locator { registry: Registry::built_in(), options: &options, env: &env, progress: Progress::Lines };
    let choice = PairChoice::of(None, None).expect("the default pair");
    let target = locator.target(&choice).unwrap_or_else(|failure| panic!("{failure}"));
    match locator.draft(&choice, &target, None) {
        Ok(FoundDraft::Model { path, .. }) => Files { target: target.path, draft: path },
        other => panic!("the default pair has a draft: {other:?}"),
    }
}

fn load(files: &Files) -> (Box<dyn Target>, TextPipeline) {
    let loaded =
        load_target(&files.target, Arc::new(CpuBackend::detect()), &mut |_, _| {}).expect("a sound file");
    let text = TextPipeline::open(&loaded.text).unwrap_or_else(|failure| panic!("{failure}"));
    (loaded.target, text)
}

fn draft(dir: &Path, target: &dyn Target) -> Box<BlockDiffusion> {
    Box::new(BlockDiffusion::new(Draft::load(dir, target, DraftOptions::default()).expect("a sound draft")))
}

fn options(cap: usize) -> DecoderOptions {
    DecoderOptions { prefill_chunk: 512, block: 16, verify_cap: cap, mode: VerifyMode::Fixed }
}

fn decode(
    decoder: &Decoder,
    prompt: &[u32],
    max_tokens: usize,
    stop: u32,
    decoding: Decoding,
) -> (Vec<u32>, Stats) {
    let (mut ids, mut end) = (Vec::new(), None);
    let request = Request { stop_ids: vec![stop], decoding, ..Request::new(prompt.to_vec(), max_tokens) };
    decoder
        .decode(request, &mut |event| {
            match event {
                Event::Tokens(new) => ids.extend(new),
                Event::Finished { stats, .. } => end = Some(stats),
                _ => {}
            }
            true
        })
        .expect("a prompt that can be decoded");
    (ids, end.expect("an end"))
}

/// The held-out prompts of the draft's evaluation.
struct Evaluation {
    prompts: Vec<Vec<u32>>,
    users: Vec<String>,
    /// Tokens per cycle that were measured when it was made, at widths 8 and 4.
    reference: [f64; 2],
}

fn evaluation() -> Evaluation {
    let file: Value = serde_json::from_str(include_str!("../../../models/smollm2-135m-dflash/eval.json"))
        .expect("sound JSON");
    let list = file["prompts"].as_array().expect("a list");
    let ids = |prompt: &Value| {
        let ids = prompt["prompt_ids"].as_array().expect("ids");
        ids.iter().map(|id| id.as_u64().expect("an id") as u32).collect()
    };
    let figure = |key: &str| file[key].as_f64().expect("a figure");
    Evaluation {
        prompts: list.iter().map(ids).collect(),
        users: list.iter().map(|prompt| prompt["user"].as_str().expect("text").to_owned()).collect(),
        reference: [figure("tokens_per_cycle_width_8"), figure("tokens_per_cycle_width_4")],
    }
}

const END_OF_TURN: u32 = 2;

/// Most ids of an answer.
const BUDGET: usize = 300;

/// Decodes every prompt with the draft alone at a fixed width: answers, and cycles of each.
fn decode_all(files: &Files, prompts: &[Vec<u32>], width: usize) -> Vec<(Vec<u32>, usize)> {
    let (target, _) = load(files);
    let draft = draft(&files.draft, target.as_ref());
    let decoder = Decoder::new(target, vec![draft], options(width));
    let one = |prompt: &Vec<u32>| {
        let (ids, stats) = decode(&decoder, prompt, BUDGET, END_OF_TURN, Decoding::Speculative);
        (ids, stats.cycles)
    };
    prompts.iter().map(one).collect()
}

/// The cycles that a draft would take, given the answers: the target runs once over prompt and answer, since by
/// the law its features are those of any decoding.
fn replay(
    files: &Files,
    draft_dir: &Path,
    prompts: &[Vec<u32>],
    answers: &[Vec<u32>],
    width: usize,
) -> Vec<usize> {
    let (target, _) = load(files);
    let draft = Draft::load(draft_dir, target.as_ref(), DraftOptions::default()).expect("a sound draft");
    let mut taps = Taps::new(Arc::clone(target.backend()), &draft.spec().taps, target.spec().hidden);
    let (mut workspace, mut scratch) = (target.workspace(), draft.workspace());
    let mut cycles = Vec::new();
    for (prompt, answer) in prompts.iter().zip(answers) {
        let mut batch = Batch::new();
        batch.push(&[&prompt[..], answer].concat(), 0, Shape::Chain);
        let mut cache = target.new_cache();
        cache.begin_verify(batch.rows());
        target.forward(&mut workspace, &batch, &mut [&mut cache], Some(&mut taps));
        cycles.push(replay_one(&draft, &mut scratch, &taps, prompt.len(), answer, width));
    }
    cycles
}

fn replay_one(
    draft: &Draft,
    scratch: &mut DraftWorkspace,
    taps: &Taps,
    prompt: usize,
    answer: &[u32],
    width: usize,
) -> usize {
    let (mut state, mut drafted) = (draft.new_state(), Vec::new());
    draft.observe(scratch, &mut state, taps.rows(), 0..prompt, 0);
    let (mut staged, mut cycles) = (0, 0);
    while staged + 1 < answer.len() {
        let rows = width.min(BUDGET - staged - 1);
        let mut accepted = 0;
        if rows > 1 {
            let states = &mut [&mut state];
            draft
                .propose(scratch, states, &answer[staged..=staged], rows, &mut drafted)
                .expect("sound numbers");
            let pairs = drafted[0].iter().zip(&answer[staged + 1..]);
            accepted = pairs.take_while(|(drafted, id)| drafted.id == **id).count();
        }
        let committed = (accepted + 1).min(answer.len() - staged - 1);
        draft.observe(scratch, &mut state, taps.rows(), prompt + staged..prompt + staged + committed, 0);
        staged += committed;
        cycles += 1;
    }
    cycles
}

#[test]
fn the_prompt_is_rendered_and_tokenised_like_the_reference() {
    let (_, text) = load(&files());
    let evaluation = evaluation();
    for (user, ids) in evaluation.users.iter().zip(&evaluation.prompts) {
        assert_eq!(&text.encode_chat(None, user).unwrap(), ids, "{user}");
    }
}

/// Prompts that nobody trained on: other languages, code, lists, copies, one word, symbols.
const VARIED: [&str; 12] = [
    "Write a short story about a dragon who learns to cook.",
    "def fibonacci(n):",
    "Napiš krátkou báseň o řece a žluťoučkém koni.",
    "日本の四季について説明してください。",
    "Repeat the following list three times: apple, pear, plum, cherry, quince.",
    "SELECT name, COUNT(*) FROM users GROUP BY name;",
    "What is 17 * 23? Think step by step.",
    "hi",
    "🙂🙃🇨🇿👩‍👩‍👧‍👦",
    "Explain TCP slow start to a ten year old, then to a network engineer.",
    "Translate to French: The quick brown fox jumps over the lazy dog.",
    "<xml><a href=\"x\">{{ braces }}</a></xml>",
];

#[test]
fn lossless_law_on_varied_prompts() {
    let files = files();
    let (target, text) = load(&files);
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(16)), draft(&files.draft, target.as_ref())];
    let decoder =
        Decoder::new(target, proposers, options(0)).with_policy(|_| Box::new(RandomWidths(Rng::new(2026))));
    let varied = VARIED.iter().map(|user| text.encode_chat(None, user).unwrap());
    let held_out = evaluation().prompts.into_iter().take(12);
    let mut accepted = 0;
    for prompt in varied.chain(held_out) {
        // No id stops them, so every prompt gives its full 128 ids.
        let (plain, _) = decode(&decoder, &prompt, 128, u32::MAX, Decoding::Plain);
        let (speculative, stats) = decode(&decoder, &prompt, 128, u32::MAX, Decoding::Speculative);
        assert_eq!(speculative, plain, "prompt {prompt:?}");
        assert_eq!(plain.len(), 128);
        accepted += stats.accepted;
    }
    assert!(accepted > 300, "drafted ids were in play: {accepted} accepted");
}

#[test]
fn the_draft_reaches_what_its_evaluation_states_and_its_taps_matter() {
    let files = files();
    let Evaluation { prompts, reference, .. } = evaluation();
    let (answers, at_8): (Vec<_>, Vec<_>) = decode_all(&files, &prompts, 8).into_iter().unzip();
    assert_eq!(replay(&files, &files.draft, &prompts, &answers, 8), at_8, "a replay takes the same cycles");
    let at_4 = replay(&files, &files.draft, &prompts, &answers, 4);
    let decoded_at_4: Vec<_> = decode_all(&files, &prompts[..2], 4);
    assert_eq!(
        decoded_at_4.iter().map(|(ids, _)| ids).collect::<Vec<_>>(),
        answers[..2].iter().collect::<Vec<_>>()
    );
    assert_eq!(decoded_at_4.iter().map(|(_, cycles)| *cycles).collect::<Vec<_>>(), at_4[..2]);
    let shifted =
        [1, -1].map(|by| replay(&files, shifted_taps(&files.draft, by).path(), &prompts, &answers, 8));

    // The id from prefill is not the draft's.
    let tokens: usize = answers.iter().map(|ids| ids.len() - 1).sum();
    let per_cycle = |cycles: &[usize]| tokens as f64 / cycles.iter().sum::<usize>() as f64;
    let (at_8, at_4) = (per_cycle(&at_8), per_cycle(&at_4));
    let shifted = shifted.map(|cycles| per_cycle(&cycles));
    eprintln!(
        "tokens per cycle: {at_8:.4} at width 8, {at_4:.4} at width 4, taps one layer off {shifted:.4?}"
    );
    for (measured, reference) in [at_8, at_4].into_iter().zip(reference) {
        assert!((measured / reference - 1.0).abs() < 0.02, "{measured} against {reference}");
    }
    assert!(
        shifted.iter().all(|&shifted| at_8 > shifted),
        "{at_8} with the right taps, one layer off {shifted:?}"
    );
}

/// The same draft reading the layer after (1) or before (-1) each of its taps.
fn shifted_taps(draft: &Path, by: i64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = std::fs::read_to_string(draft.join("config.json")).expect("a config");
    let mut config: Value = serde_json::from_str(&config).expect("sound JSON");
    for tap in config["dflash_config"]["target_layer_ids"].as_array_mut().expect("taps") {
        *tap = (tap.as_i64().expect("a layer") + by).into();
    }
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("a writable directory");
    std::fs::copy(draft.join("model.safetensors"), dir.path().join("model.safetensors")).expect("a copy");
    dir
}

/// The JSON of `dflash generate` on the default pair.
fn generate(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_dflash"))
        .args(["generate", "--json"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("a binary that runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("sound JSON")
}

#[test]
fn the_binary_decodes_the_default_pair() {
    files();
    let said = ["--prompt", VARIED[0], "--max-tokens", "64", "--check", "--verify-mode", "dflash"];
    let check = generate(&said);
    assert_eq!((&check["identical"], &check["first_difference"]), (&true.into(), &Value::Null));
    assert_eq!(check["ids"], check["plain"]["ids"]);
    let cycles = |answer: &Value, by: &str| answer["cycles_by_proposer"][by].as_u64().unwrap_or(0);
    assert!(cycles(&check, "draft") + cycles(&check, "copy") > 0, "{check}");
    assert!(check["cycles"].as_u64() < check["plain"]["cycles"].as_u64(), "{check}");
    let plain = check["plain"]["cycles_by_proposer"].as_object().expect("figures");
    assert_eq!(plain.keys().collect::<Vec<_>>(), ["none"]);

    let hi = generate(&["--prompt", "hi", "--max-tokens", "300"]);
    assert_eq!(hi["finish_reason"], "stop");
    let ids = hi["ids"].as_array().expect("ids");
    assert_eq!(ids.last(), Some(&END_OF_TURN.into()));
    assert_eq!(ids.iter().filter(|id| **id == END_OF_TURN).count(), 1);
    let system = generate(&[
        "--prompt",
        "hi",
        "--max-tokens",
        "1",
        "--system",
        "You are a patient teacher of physics.",
    ]);
    assert_ne!(system["prompt_tokens"], hi["prompt_tokens"]);
}

#[test]
fn the_real_vocabulary_gives_the_reference_ids() {
    let (_, text) = load(&files());
    let goldens: Value =
        serde_json::from_str(include_str!("../../dflash-text/tests/data/tokenizer_goldens.json"))
            .expect("sound JSON");
    let goldens = goldens.as_array().expect("a list");
    assert!(!goldens.is_empty());
    for case in goldens {
        let said = case["text"].as_str().expect("text");
        for (column, allow_special) in [("special", true), ("plain", false)] {
            let expected = &case["ids"]["smollm2-135m"][column];
            let expected: Vec<u32> = serde_json::from_value(expected.clone()).expect("ids");
            let ids = text.tokenizer().encode(said, allow_special).expect("sound text");
            assert_eq!(ids, expected, "{column}: {} {said:?}", case["name"]);
        }
    }
}
