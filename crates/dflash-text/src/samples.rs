//! Small vocabularies for the tests of this crate.

use std::sync::LazyLock;

use crate::byte_alphabet::spelling_of;
use crate::{GgufVocab, Tokenizer};

pub fn id_of_byte(byte: u8) -> u32 {
    u32::from(byte)
}

/// The 256 bytes, ids equal to bytes, then `extra` tokens with their types.
pub fn vocab(pre: &str, extra: &[(&str, i32)], merges: &[&str]) -> GgufVocab {
    let bytes = (0..=255u8).map(|byte| (spelling_of(&[byte]), 1));
    let extra = extra.iter().map(|(token, kind)| ((*token).to_owned(), *kind));
    let (tokens, token_types) = bytes.chain(extra).unzip();
    let merges = merges.iter().map(|merge| (*merge).to_owned()).collect();
    GgufVocab { model: "gpt2".into(), pre: pre.into(), tokens, token_types, merges, ..Default::default() }
}

pub fn bytes_only() -> Tokenizer {
    static ONE: LazyLock<Tokenizer> =
        LazyLock::new(|| Tokenizer::from_gguf(vocab("gpt2", &[], &[])).unwrap());
    ONE.clone()
}

pub const IM_START: u32 = 256;
pub const IM_END: u32 = 257;

pub fn smollm() -> Tokenizer {
    let extra = [("<|im_start|>", 3), ("<|im_end|>", 3), ("<think>", 4), ("hi", 1), ("Ġa", 1)];
    let mut vocab = vocab("smollm", &extra, &["h i", "Ġ a"]);
    (vocab.bos, vocab.eos) = (Some(IM_START), Some(IM_END));
    Tokenizer::from_gguf(vocab).unwrap()
}
