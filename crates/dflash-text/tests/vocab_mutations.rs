//! GGUF vocabularies that contradict themselves: reading one ends in an error, or in a tokenizer whose ids are
//! those of the vocabulary and come back as text. Nothing panics.

use dflash_text::{Detokenizer, GgufVocab, Tokenizer};
use proptest::prelude::*;

/// A small vocabulary of each model: unknown, beginning, end, bytes, pieces.
fn vocab(model: &str) -> GgufVocab {
    let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let own = [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(token, kind)| (token.to_owned(), kind));
    let pieces = ["a", "b", "c", "▁", "ab", "bc", "abc", "▁a", "ca", "Ġ"].map(|piece| (piece.to_owned(), 1));
    let (tokens, token_types): (Vec<_>, Vec<_>) = own.into_iter().chain(bytes).chain(pieces).unzip();
    GgufVocab {
        model: model.into(),
        pre: "gpt2".into(),
        scores: (0..tokens.len()).map(|id| -(id as f32)).collect(),
        merges: ["a b", "b c", "ab c"].map(String::from).to_vec(),
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        tokens,
        token_types,
        ..GgufVocab::default()
    }
}

/// What is done to a vocabulary.
#[derive(Debug, Clone)]
enum Change {
    Token(usize, String),
    Twice(usize, usize),
    Kind(usize, i32),
    Score(usize, f32),
    Merge(String),
    Drop(usize),
    Types(usize),
    Special(usize, u32),
}

fn change() -> impl Strategy<Value = Change> {
    let texts = ["", " ", "▁", "a", "<s>", "<0x41>", "<0xFF>", "\u{0}", "é", "aaaa", "<0x>", "ab"];
    let text = prop::sample::select(texts.to_vec());
    let merges = ["", " ", "a", "a ", " a", "a  b", "a a", "ab ab", "abc abc", "b a", "▁ a", "<s> a"];
    let score = prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e38]);
    let place = 0..269usize;
    prop_oneof![
        (place.clone(), text).prop_map(|(id, text)| Change::Token(id, text.to_owned())),
        (place.clone(), place.clone()).prop_map(|(from, to)| Change::Twice(from, to)),
        (place.clone(), -1..8i32).prop_map(|(id, kind)| Change::Kind(id, kind)),
        (place.clone(), score).prop_map(|(id, score)| Change::Score(id, score)),
        prop::sample::select(merges.to_vec()).prop_map(|merge| Change::Merge(merge.to_owned())),
        (0..3usize).prop_map(Change::Drop),
        place.clone().prop_map(Change::Types),
        (0..5usize, 0..400u32).prop_map(|(which, id)| Change::Special(which, id)),
    ]
}

impl Change {
    fn apply(&self, vocab: &mut GgufVocab) {
        match self.clone() {
            Self::Token(id, text) => vocab.tokens[id] = text,
            Self::Twice(from, to) => vocab.tokens[to] = vocab.tokens[from].clone(),
            Self::Kind(id, kind) => vocab.token_types.iter_mut().skip(id).take(1).for_each(|k| *k = kind),
            Self::Score(id, score) => vocab.scores.iter_mut().skip(id).take(1).for_each(|s| *s = score),
            Self::Merge(merge) => vocab.merges.push(merge),
            Self::Drop(0) => vocab.scores.clear(),
            Self::Drop(1) => vocab.token_types.clear(),
            Self::Drop(_) => vocab.merges.clear(),
            Self::Types(len) => vocab.token_types.truncate(len),
            Self::Special(which, id) => {
                *[&mut vocab.bos, &mut vocab.eos, &mut vocab.eot, &mut vocab.unk, &mut vocab.pad][which] =
                    Some(id);
            }
        }
    }
}

fn check(tokenizer: &Tokenizer, text: &str) {
    for special in [false, true] {
        // A vocabulary without the bytes of a text cannot spell it.
        let Ok(ids) = tokenizer.encode_prompt(text, special) else { continue };
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_len()), "{ids:?}");
        let mut stream = Detokenizer::new(tokenizer);
        let streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        assert_eq!(streamed + &stream.flush(), tokenizer.decode(&ids, true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn vocabularies_that_contradict_themselves(
        model in prop::sample::select(vec!["llama", "gemma4", "gpt2"]),
        changes in prop::collection::vec(change(), 1..6),
        text in "[ abcé<s>▁]{0,12}",
    ) {
        let mut vocab = vocab(model);
        changes.iter().for_each(|change| change.apply(&mut vocab));
        match Tokenizer::from_gguf(vocab) {
            Ok(tokenizer) => check(&tokenizer, &text),
            Err(error) => prop_assert!(error.to_string().len() > 10),
        }
    }
}
