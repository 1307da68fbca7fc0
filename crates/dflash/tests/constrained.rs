//! Constrained answers of the default model: over its real vocabulary, and decoded for real.

#[path = "../../dflash-grammar/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Locator, PairChoice};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::text::TextPipeline;
use dflash_cpu::CpuBackend;
use dflash_engine::proposer::{ContextCopy, Grammar};
use dflash_engine::{
    Decoder, DecoderOptions, Decoding, Event, Request, Sampling, SamplingParams, Stats, VerifyMode,
};
use dflash_grammar::{Constraint, Grammars};
use dflash_models::{Target, load_target};
use dflash_text::Tokenizer;
use serde_json::{Value, json};
use support::corpus::check_corpus;
use support::validate;

const END_OF_TURN: u32 = 2;

fn load() -> (Box<dyn Target>, TextPipeline) {
    let env = Environment::of_process();
    let options =
        Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env).expect("sound options");
    let locator =
        Locator { registry: Registry::built_in(), options: &options, env: &env, progress: Progress::Lines };
    let choice = PairChoice::of(None, None).expect("the default pair");
    let found = locator.target(&choice).unwrap_or_else(|failure| panic!("{failure}"));
    let backend = Arc::new(CpuBackend::detect());
    let loaded = load_target(&found.path, backend, &mut |_, _| {}).expect("a sound file");
    let text = TextPipeline::open(&loaded.text).unwrap_or_else(|failure| panic!("{failure}"));
    (loaded.target, text)
}

#[test]
fn answers_fit_over_the_real_vocabulary() {
    let (_, text) = load();
    check_corpus(text.tokenizer(), &[0, END_OF_TURN], 3);
}

struct Asked<'a> {
    decoder: &'a Decoder,
    tokenizer: &'a Tokenizer,
    grammars: Grammars,
    prompt: Vec<u32>,
}

impl Asked<'_> {
    fn decode(
        &self,
        constraint: &Constraint,
        sampling: &SamplingParams,
        decoding: Decoding,
    ) -> (Vec<u32>, Stats) {
        let guard = self.grammars.guard(constraint, None).unwrap_or_else(|error| panic!("{error}"));
        let request = Request {
            stop_ids: vec![0, END_OF_TURN],
            guard: Some(Box::new(guard)),
            decoding,
            sampling: sampling.clone(),
            ..Request::new(self.prompt.clone(), 300)
        };
        let (mut ids, mut end) = (Vec::new(), None);
        let listen = &mut |event| {
            match event {
                Event::Tokens(new) => ids.extend(new),
                Event::Finished { stats, .. } => end = Some(stats),
                _ => {}
            }
            true
        };
        self.decoder.decode(request, listen).expect("a prompt that can be decoded");
        (ids, end.expect("an end"))
    }
}

#[test]
fn constrained_answers_fit_and_are_those_of_plain_decoding() {
    let (target, text) = load();
    let options = DecoderOptions { prefill_chunk: 512, block: 16, verify_cap: 0, mode: VerifyMode::Fixed };
    let decoder =
        Decoder::new(target, vec![Box::new(Grammar::new(16)), Box::new(ContextCopy::new(16))], options);
    let tokenizer = text.tokenizer();
    let asked = Asked {
        decoder: &decoder,
        tokenizer,
        grammars: Grammars::new(tokenizer, &[0, END_OF_TURN]),
        prompt: text.encode_chat(None, "Describe a fox and a dog as JSON.").unwrap(),
    };
    let animal = json!({"type": "object", "required": ["species", "legs", "colours"],
        "properties": {"species": {"type": "string", "maxLength": 30}, "legs": {"type": "integer", "minimum": 0,
            "maximum": 8}, "colours": {"type": "array", "items": {"enum": ["red", "brown", "black"]}, "maxItems": 3}},
        "additionalProperties": false});
    let pair = json!({"type": "array", "items": animal, "minItems": 2, "maxItems": 2});
    let warm = Sampling { temperature: 0.9, seed: 7, ..Sampling::default() };
    let warm = SamplingParams::new(warm).expect("sound parameters");
    let mut accepted = 0;
    for schema in [animal, pair] {
        for sampling in [SamplingParams::default(), warm.clone()] {
            let constraint = Constraint::JsonSchema(schema.clone());
            let (plain, _) = asked.decode(&constraint, &sampling, Decoding::Plain);
            let (drafted, stats) = asked.decode(&constraint, &sampling, Decoding::Speculative);
            assert_eq!(drafted, plain);
            let answer = asked.tokenizer.decode(&plain, true);
            let value: Value = serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{answer}: {e}"));
            assert_eq!(validate::faults(&schema, &schema, &value), Vec::<String>::new(), "{answer}");
            accepted += stats.accepted;
        }
    }
    assert!(accepted > 20, "expected ids were in play: {accepted} accepted");
}
