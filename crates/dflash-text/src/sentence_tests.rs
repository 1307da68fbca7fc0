//! Vocabularies spelled as SentencePiece spells: by score (`llama`) and with merges (`gemma4`).

use proptest::prelude::*;

use crate::{Detokenizer, GgufVocab, TextError, Tokenizer};

const UNKNOWN: u32 = 0;
const BOS: u32 = 1;
const FIRST_BYTE: u32 = 3;
const FIRST_PIECE: u32 = FIRST_BYTE + 256;

/// Unknown, beginning, end, the bytes, then `pieces`, each worse than the one before.
fn vocab(model: &str, pieces: &[(&str, i32)]) -> GgufVocab {
    let own = [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(token, kind)| (token.to_owned(), kind));
    let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let pieces = pieces.iter().map(|&(token, kind)| (token.to_owned(), kind));
    let (tokens, token_types): (Vec<_>, Vec<_>) = own.into_iter().chain(bytes).chain(pieces).unzip();
    let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let (bos, eos, unk) = (Some(BOS), Some(2), Some(UNKNOWN));
    GgufVocab { model: model.into(), tokens, token_types, scores, bos, eos, unk, ..Default::default() }
}

fn tokenizer(vocab: GgufVocab) -> Tokenizer {
    Tokenizer::from_gguf(vocab).unwrap()
}

/// Ids of the pieces, counted from the first of them.
fn places(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, true).unwrap().into_iter().map(|id| id.wrapping_sub(FIRST_PIECE)).collect()
}

const WORDS: [(&str, i32); 7] = [("bc", 1), ("ab", 1), ("abc", 1), ("▁", 1), ("a", 1), ("b", 1), ("c", 1)];

#[test]
fn the_best_score_joins_first_wherever_it_stands() {
    let plain = tokenizer(GgufVocab { add_space_prefix: Some(false), ..vocab("llama", &WORDS) });
    assert_eq!(places(&plain, "ab"), [1]);
    assert_eq!(places(&plain, "bcab"), [0, 1]);
    assert_eq!(places(&plain, "abc"), [2], "from a and bc");
}

#[test]
fn a_space_goes_before_every_run_of_text_and_comes_off_again() {
    let prefixed = tokenizer(vocab("llama", &WORDS));
    assert_eq!(places(&prefixed, "a"), [3, 4]);
    assert_eq!(prefixed.encode("a<s>b", true).unwrap()[2], BOS);
    assert_eq!(places(&prefixed, "a<s>b")[3..], [3, 5]);
    assert_eq!(prefixed.decode(&prefixed.encode("a b", false).unwrap(), true), "a b");
    assert_eq!(prefixed.decode(&prefixed.encode(" a", false).unwrap(), true), " a");
    assert_eq!(prefixed.encode_prompt("", false).unwrap(), [BOS]);
    assert!(prefixed.encode("", false).unwrap().is_empty());
}

#[test]
fn what_has_no_piece_becomes_bytes() {
    let plain = tokenizer(GgufVocab { add_space_prefix: Some(false), ..vocab("llama", &WORDS) });
    let bytes = |text: &str| text.bytes().map(|byte| FIRST_BYTE + u32::from(byte)).collect::<Vec<_>>();
    assert_eq!(plain.encode("é\n", false).unwrap(), bytes("é\n"));
    assert_eq!(plain.encode("<0x41>", false).unwrap(), bytes("<0x41>"), "typed, not meant");
    let mut stream = Detokenizer::new(&plain);
    let ids = [&bytes("é")[..], &bytes("日")[..2], &[FIRST_PIECE + 4]].concat();
    let parts: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(parts, ["", "é", "", "", "\u{FFFD}a"]);
    assert_eq!(plain.decode(&ids, true), parts.concat());
}

#[test]
fn without_bytes_it_becomes_the_unknown_token_once() {
    let mut few = vocab("llama", &WORDS);
    let keep = |id: usize| !(FIRST_BYTE..FIRST_PIECE).contains(&(id as u32));
    for id in (0..few.tokens.len()).rev().filter(|&id| !keep(id)) {
        few.tokens.remove(id);
        few.token_types.remove(id);
        few.scores.remove(id);
    }
    let unknown = tokenizer(few.clone());
    let ids = unknown.encode("é日a", false).unwrap();
    assert_eq!((ids.len(), ids[1]), (3, UNKNOWN));
    assert_eq!(unknown.decode(&ids, true), "a");
    (few.unk, few.token_types[0]) = (None, 1);
    assert!(matches!(Tokenizer::from_gguf(few), Err(TextError::GgufVocab { .. })));
}

#[test]
fn a_piece_without_end_is_refused() {
    let endless = Tokenizer::from_gguf(vocab("llama", &[(&"a".repeat(1 << 20), 1)])).unwrap_err().to_string();
    assert!(endless.contains("token 259 has 1048576 bytes"), "{endless}");
}

#[test]
fn a_score_that_is_no_number_is_refused() {
    let mut odd = vocab("llama", &WORDS);
    odd.scores[260] = f32::NAN;
    let error = Tokenizer::from_gguf(odd).unwrap_err().to_string();
    assert!(error.contains("the score of token 260 is not a number"), "{error}");
}

#[test]
fn typed_control_and_unknown_tokens_stay_text() {
    let plain = tokenizer(vocab("llama", &[("<", 1), ("s", 1), (">", 1), ("s>", 1), ("▁", 1)]));
    let ids = plain.encode("<s><unk>", false).unwrap();
    assert!(!ids.contains(&BOS) && !ids.contains(&UNKNOWN));
    assert_eq!(plain.encode("<s><unk>", true).unwrap(), [BOS, UNKNOWN]);
    assert_eq!(plain.decode(&ids, true), "<s><unk>");
}

#[test]
fn listed_merges_never_ask_for_a_space() {
    let mut listed = vocab("gemma4", &WORDS);
    listed.merges = ["a b", "b c", "ab c"].map(String::from).to_vec();
    listed.add_bos = Some(false);
    let listed = tokenizer(listed);
    assert_eq!(places(&listed, "abc"), [2]);
    assert_eq!(places(&listed, " bc"), [3, 0]);
    assert_eq!(listed.encode_prompt("", false).unwrap(), [BOS], "whatever the file says");
    assert_eq!(listed.decode(&listed.encode(" b  c", false).unwrap(), true), " b  c");
}

#[test]
fn user_defined_blanks_are_matched_as_typed() {
    for spelled in ["▁▁", "  "] {
        let spaced = tokenizer(GgufVocab {
            add_space_prefix: Some(false),
            ..vocab("llama", &[(spelled, 4), ("▁", 1), ("a", 1)])
        });
        assert_eq!(places(&spaced, "a   a"), [2, 0, 1, 2]);
        assert_eq!(spaced.decode(&spaced.encode("a   a", false).unwrap(), true), "a   a");
    }
}

/// SentencePiece's own way: of all neighbours whose union is a piece, the best union is made, the leftmost of equals.
fn joined_by_score(pieces: &[(&str, i32)], scores: &[f32], text: &str) -> Vec<u32> {
    let rank = |union: &str| pieces.iter().position(|(piece, _)| *piece == union);
    let mut symbols: Vec<String> = text.replace(' ', "▁").chars().map(String::from).collect();
    loop {
        let unions = symbols.windows(2).map(|pair| rank(&pair.concat()));
        let scored = unions.enumerate().filter_map(|(at, piece)| Some((at, scores[piece?])));
        let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
        let Some((at, _)) = best else { break };
        let right = symbols.remove(at + 1);
        symbols[at].push_str(&right);
    }
    symbols.iter().map(|symbol| FIRST_PIECE + rank(symbol).unwrap() as u32).collect()
}

const UNIONS: [(&str, i32); 11] = [
    ("a", 1),
    ("b", 1),
    ("c", 1),
    ("▁", 1),
    ("ab", 1),
    ("bc", 1),
    ("ca", 1),
    ("abc", 1),
    ("cab", 1),
    ("▁a", 1),
    ("▁ab", 1),
];

proptest! {
    #[test]
    fn any_text_comes_back_and_streams(text in "[ abc\\PC]{0,24}", model in prop::sample::select(vec!["llama", "gemma4"])) {
        let tokenizer = tokenizer(vocab(model, &WORDS));
        let ids = tokenizer.encode(&text, false).unwrap();
        // The sign for a space cannot be told from one.
        prop_assert_eq!(tokenizer.decode(&ids, true), text.replace('▁', " "));
        let mut stream = Detokenizer::new(&tokenizer);
        let streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        prop_assert_eq!(streamed + &stream.flush(), text.replace('▁', " "));
    }

    #[test]
    fn any_ids_stream_to_the_full_decode(ids in proptest::collection::vec(0u32..270, 0..48)) {
        let tokenizer = tokenizer(vocab("llama", &WORDS));
        let mut stream = Detokenizer::new(&tokenizer);
        let streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        prop_assert_eq!(streamed + &stream.flush(), tokenizer.decode(&ids, true));
    }

    #[test]
    fn scores_join_as_sentencepiece_joins(text in "[abc ]{0,20}", order in Just((0..11u8).collect::<Vec<_>>()).prop_shuffle()) {
        let ranks: Vec<f32> = order.into_iter().map(f32::from).collect();
        let mut scored = GgufVocab { add_space_prefix: Some(false), ..vocab("llama", &UNIONS) };
        scored.scores[FIRST_PIECE as usize..].copy_from_slice(&ranks);
        let expected = joined_by_score(&UNIONS, &ranks, &text);
        prop_assert_eq!(tokenizer(scored).encode(&text, false).unwrap(), expected);
    }
}
