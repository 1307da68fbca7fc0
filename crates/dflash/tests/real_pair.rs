//! The default pair, decoded for real: obtained like a user obtains it, from the cache or the package index.

use std::path::{Path, PathBuf};
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
use dflash_models::{Draft, DraftOptions, Target, load_target};
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
    /// Tokens per cycle of the reference evaluation at width 8 and 16.
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
        reference: [figure("tokens_per_cycle_width_8"), figure("tokens_per_cycle_width_16")],
    }
}

const END_OF_TURN: u32 = 2;

/// Delivered ids without the one from prefill, over cycles.
fn tokens_per_cycle(files: &Files, draft_dir: &Path, prompts: &[Vec<u32>], width: usize) -> f64 {
    let (target, _) = load(files);
    let draft = draft(draft_dir, target.as_ref());
    let decoder = Decoder::new(target, vec![draft], options(width));
    let (mut tokens, mut cycles) = (0, 0);
    for prompt in prompts {
        let (_, stats) = decode(&decoder, prompt, 300, END_OF_TURN, Decoding::Speculative);
        tokens += stats.completion_tokens - 1;
        cycles += stats.cycles;
    }
    tokens as f64 / cycles as f64
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
    let evaluation = evaluation();
    let at_8 = tokens_per_cycle(&files, &files.draft, &evaluation.prompts, 8);
    let at_16 = tokens_per_cycle(&files, &files.draft, &evaluation.prompts, 16);
    eprintln!(
        "tokens per cycle: {at_8:.3} at width 8, {at_16:.3} at width 16; reference {:?}",
        evaluation.reference
    );
    for (measured, reference) in [at_8, at_16].into_iter().zip(evaluation.reference) {
        assert!((measured / reference - 1.0).abs() < 0.1, "{measured} against {reference}");
    }
    let few = &evaluation.prompts[..6];
    let shifted = shifted_taps(&files.draft);
    let right = tokens_per_cycle(&files, &files.draft, few, 8);
    let wrong = tokens_per_cycle(&files, shifted.path(), few, 8);
    eprintln!("first six prompts at width 8: {right:.3}, with taps one layer off {wrong:.3}");
    assert!(right > 1.02 * wrong, "{right} with the right taps, {wrong} with taps one layer off");
}

/// The same draft reading the layer after each of its taps.
fn shifted_taps(draft: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = std::fs::read_to_string(draft.join("config.json")).expect("a config");
    let mut config: Value = serde_json::from_str(&config).expect("sound JSON");
    for tap in config["dflash_config"]["target_layer_ids"].as_array_mut().expect("taps") {
        *tap = (tap.as_u64().expect("a layer") + 1).into();
    }
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("a writable directory");
    std::fs::copy(draft.join("model.safetensors"), dir.path().join("model.safetensors")).expect("a copy");
    dir
}
