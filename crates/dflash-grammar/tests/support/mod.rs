//! Vocabularies, and a model that knows nothing: it draws every id from the mask.
#![allow(dead_code)]

pub mod corpus;
pub mod validate;

use dflash_engine::{TokenGuard, TokenMask, Verdict};
use dflash_grammar::{GrammarGuard, Reasoning};
use dflash_testkit::Rng;
use dflash_text::{GgufVocab, ReasoningMarkers, Tokenizer, TokenizerConfig};

/// Ids of the control tokens of [`bytes_only`].
pub const END: u32 = 256;
pub const END_TOO: u32 = 257;
pub const OPEN: u32 = 258;
pub const CLOSE: u32 = 259;
pub const CALL: u32 = 260;
pub const CALLED: u32 = 261;
const CONTROL: [&str; 7] =
    ["<|end|>", "<|end_too|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|\"|>"];

/// The 256 bytes, ids equal to bytes, and control tokens.
pub fn bytes_only() -> Tokenizer {
    let bytes = (0..=255u8).map(|byte| (spelling(byte).to_string(), 1));
    let control = CONTROL.map(|token| (token.to_owned(), 3));
    let (tokens, token_types) = bytes.chain(control).unzip();
    Tokenizer::from_gguf(GgufVocab {
        model: "gpt2".into(),
        pre: "gpt2".into(),
        tokens,
        token_types,
        eos: Some(END),
        ..Default::default()
    })
    .unwrap()
}

/// Reasoning between two markers.
pub fn thinking(open: &str, close: &str, begun: bool) -> Reasoning {
    Reasoning { markers: ReasoningMarkers { open: open.into(), close: close.into() }, begun }
}

/// GPT-2's character for a byte.
fn spelling(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let spare = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    if printable(byte) { byte.into() } else { char::from_u32(0x100 + spare).unwrap() }
}

/// A small tokenizer of a published family, from the files of the text crate's tests.
pub fn small(family: &str) -> Tokenizer {
    let path = format!("{}/../dflash-text/tests/data/{family}/tokenizer.json", env!("CARGO_MANIFEST_DIR"));
    Tokenizer::from_json(&std::fs::read(path).unwrap(), &TokenizerConfig::default()).unwrap()
}

/// What was drawn.
#[derive(Debug)]
pub struct Drawn {
    pub ids: Vec<u32>,
    pub text: String,
    /// Whether the guard ended it.
    pub ended: bool,
}

/// Draws an answer, each id from the mask; ids that close something are drawn more often, or few answers would end.
pub fn draw(guard: &mut GrammarGuard, tokenizer: &Tokenizer, rng: &mut Rng, most: usize) -> Drawn {
    draw_towards("", guard, tokenizer, rng, most)
}

/// Draws an answer, and now and then all ids of `way_out` where they may come.
pub fn draw_towards(
    way_out: &str,
    guard: &mut GrammarGuard,
    tokenizer: &Tokenizer,
    rng: &mut Rng,
    most: usize,
) -> Drawn {
    let way_out = tokenizer.encode(way_out, true).unwrap();
    let (mut ids, mut ended) = (Vec::new(), false);
    while ids.len() < most && !ended {
        if !way_out.is_empty() && rng.below(5) == 0 && guard.fits(&way_out) == way_out.len() {
            assert!(way_out.iter().all(|&id| guard.push(id) == Verdict::Go));
            ids.extend(&way_out);
        }
        let mask = guard.allowed().expect("a mask").clone();
        let allowed = list(&mask, tokenizer);
        assert!(!allowed.is_empty(), "nothing is allowed after {:?}", tokenizer.decode(&ids, false));
        let closing = |&id: &u32| {
            if tokenizer.is_special(id) {
                return true;
            }
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            bytes.first().is_some_and(|byte| b"\"}],:<@".contains(byte)) && bytes.len() < 4
        };
        let closers: Vec<u32> = allowed.iter().copied().filter(closing).collect();
        let from = if !closers.is_empty() && rng.below(2) == 0 { &closers } else { &allowed };
        let id = from[rng.below(from.len() as u32) as usize];
        check_guesses(guard, &mask, id, rng, &allowed);
        match guard.push(id) {
            Verdict::Go => ids.push(id),
            Verdict::Stop { keep } => {
                ended = true;
                ids.extend(keep.then_some(id));
            }
        }
    }
    let text = tokenizer.decode(&ids, true);
    Drawn { ids, text, ended }
}

/// What the guard says of ids without a mask agrees with the mask.
fn check_guesses(guard: &mut GrammarGuard, mask: &TokenMask, id: u32, rng: &mut Rng, allowed: &[u32]) {
    assert_eq!(guard.fits(&[id]), 1, "an id of the mask fits");
    let other = rng.below(allowed.len() as u32 + 300);
    assert_eq!(guard.fits(&[other]), usize::from(mask.contains(other)), "id {other}");
    let expected = guard.expected();
    assert_eq!(guard.fits(&expected), expected.len());
    if let Some(&first) = expected.first() {
        assert_eq!(allowed, [first], "an expected id is forced");
    }
    assert_eq!(guard.allowed(), Some(mask), "guesses change nothing");
}

/// The ids of a mask.
pub fn list(mask: &TokenMask, tokenizer: &Tokenizer) -> Vec<u32> {
    (0..tokenizer.vocab_len() as u32).filter(|&id| mask.contains(id)).collect()
}

/// Whether `text` in the tokenizer's ids passes the guard to an end of its own, or to a stop id.
pub fn accepts(guard: &mut GrammarGuard, tokenizer: &Tokenizer, text: &str, stop: u32) -> bool {
    let ids = tokenizer.encode(text, true).unwrap();
    for (at, &id) in ids.iter().chain([&stop]).enumerate() {
        if !guard.allowed().expect("a mask").contains(id) {
            return false;
        }
        if guard.push(id) != Verdict::Go {
            return at + 1 >= ids.len();
        }
    }
    false
}
