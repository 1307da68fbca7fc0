use std::collections::HashSet;

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::NFC;
use tokenizers::{AddedToken, Tokenizer as Library};

use crate::control::{ControlToken, ControlTokens};
use crate::pieces::{Pieces, Spelling};
use crate::tokenizer::Parts;
use crate::{PreTokenizer, TextError};

/// `tokenizer.ggml.token_type`: the token is the model's own and never part of plain text.
const CONTROL: i32 = 3;
/// `tokenizer.ggml.token_type`: added to the vocabulary, matched in plain text before anything else.
const USER_DEFINED: i32 = 4;

/// Names of control tokens that end a turn or a text in the families this runtime serves.
const KNOWN_ENDS: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
];

/// The `tokenizer.ggml.*` keys of a GGUF file, as plain data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GgufVocab {
    /// `model`; only `"gpt2"` (byte-level BPE) is built.
    pub model: String,
    /// `pre`: the name of the pre-tokenizer, see [`PreTokenizer`].
    pub pre: String,
    /// `tokens`, by id, spelled in GPT-2's byte alphabet.
    pub tokens: Vec<String>,
    /// `token_type`, by id; empty means that all tokens are normal.
    pub token_types: Vec<i32>,
    /// `merges`: `"left right"`, best first.
    pub merges: Vec<String>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: the end of a turn, where it differs from `eos`.
    pub eot: Option<u32>,
    /// `unknown_token_id`. Byte-level BPE has no use for it.
    pub unk: Option<u32>,
    /// `padding_token_id`. Nothing is padded here.
    pub pad: Option<u32>,
    /// `add_bos_token`: whether a raw prompt begins with `bos`.
    pub add_bos: Option<bool>,
}

impl GgufVocab {
    pub(crate) fn into_parts(self) -> Result<Parts, TextError> {
        self.check()?;
        let pre: PreTokenizer = self.pre.parse()?;
        let add_bos = self.add_bos.unwrap_or(false);
        Ok(Parts {
            library: self.library(pre)?,
            control: ControlTokens::new(self.control_tokens()).map_err(|e| damaged(e.to_string()))?,
            pieces: self.pieces().ok_or_else(|| damaged("no tokens".into()))?,
            bos: self.bos,
            prompt_prefix: self.bos.filter(|_| add_bos).into_iter().collect(),
            eos: distinct([self.eos, self.eot]),
            known_ends: self.known_ends(),
        })
    }

    fn check(&self) -> Result<(), TextError> {
        if self.model != "gpt2" {
            return Err(TextError::UnsupportedModel { model: self.model.clone(), supported: "gpt2".into() });
        }
        if self.tokens.is_empty() {
            return Err(damaged("it has no tokens".into()));
        }
        let (tokens, types) = (self.tokens.len(), self.token_types.len());
        if types != 0 && types != tokens {
            return Err(damaged(format!("{tokens} tokens but {types} token types")));
        }
        let named = [("bos", self.bos), ("eos", self.eos), ("eot", self.eot)];
        match named.iter().find(|(_, id)| id.is_some_and(|id| id as usize >= tokens)) {
            Some((name, id)) => Err(damaged(format!("{name} id {} of {tokens} tokens", id.unwrap_or(0)))),
            None => Ok(()),
        }
    }

    fn kind(&self, id: usize) -> i32 {
        self.token_types.get(id).copied().unwrap_or(1)
    }

    fn by_kind(&self, kind: i32) -> impl Iterator<Item = (u32, &String)> {
        let ids = (0..self.tokens.len()).filter(move |&id| self.kind(id) == kind);
        ids.map(|id| (id as u32, &self.tokens[id]))
    }

    /// Control tokens are kept out of the merging vocabulary altogether: no plain text can reach them there.
    fn library(&self, pre: PreTokenizer) -> Result<Library, TextError> {
        let ids = (0..self.tokens.len()).filter(|&id| self.kind(id) != CONTROL);
        let vocab: Vocab = ids.map(|id| (self.tokens[id].clone(), id as u32)).collect();
        let merges = self.merges(&vocab)?;
        let model =
            BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.ignores_merges()).build();
        let mut library = Library::new(model.map_err(|e| damaged(e.to_string()))?);
        library.with_pre_tokenizer(Some(pre.build()?));
        if pre.normalizes() {
            library.with_normalizer(Some(NFC)).map_err(|e| damaged(e.to_string()))?;
        }
        let added = self.by_kind(USER_DEFINED).filter(|(_, token)| !token.is_empty());
        let added: Vec<_> =
            added.map(|(_, token)| AddedToken::from(token.as_str(), false).normalized(false)).collect();
        library.add_tokens(added).map_err(|e| damaged(e.to_string()))?;
        Ok(library)
    }

    fn merges(&self, vocab: &Vocab) -> Result<Merges, TextError> {
        let control: HashSet<&str> = self.by_kind(CONTROL).map(|(_, token)| token.as_str()).collect();
        let mut merges = Merges::with_capacity(self.merges.len());
        for (rank, merge) in self.merges.iter().enumerate() {
            let (left, right) =
                split_merge(merge).ok_or_else(|| damaged(format!("merge {rank} is {merge:?}")))?;
            let whole = format!("{left}{right}");
            if control.contains(whole.as_str()) {
                continue;
            }
            if let Some(lost) = [left, right, &whole].into_iter().find(|part| !vocab.contains_key(*part)) {
                return Err(damaged(format!("merge {rank} needs {lost:?}, which is no token")));
            }
            merges.push((left.to_owned(), right.to_owned()));
        }
        Ok(merges)
    }

    fn control_tokens(&self) -> Vec<ControlToken> {
        let control = self.by_kind(CONTROL);
        control
            .map(|(id, content)| ControlToken { id, content: content.clone(), ..Default::default() })
            .collect()
    }

    fn pieces(&self) -> Option<Pieces> {
        let tokens = self.tokens.iter().enumerate().map(|(id, token)| {
            let kind = self.kind(id);
            let raw = matches!(kind, CONTROL | USER_DEFINED);
            let bytes = if raw { token.as_bytes().to_vec() } else { Spelling::ByteLevel.bytes_of(token) };
            (id as u32, bytes, kind == CONTROL)
        });
        Pieces::new(Spelling::ByteLevel, tokens.collect())
    }

    fn known_ends(&self) -> Vec<u32> {
        let ends = self.by_kind(CONTROL).filter(|(_, token)| KNOWN_ENDS.contains(&token.as_str()));
        ends.map(|(id, _)| id).collect()
    }
}

/// Ids of control tokens that are known by name to end a text.
pub(crate) fn known_ends(control: &ControlTokens) -> Vec<u32> {
    KNOWN_ENDS.iter().filter_map(|name| control.id_of(name)).collect()
}

/// The given ids, each once, in order.
pub(crate) fn distinct(ids: impl IntoIterator<Item = Option<u32>>) -> Vec<u32> {
    let mut seen = Vec::new();
    for id in ids.into_iter().flatten() {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen
}

/// The blank that separates the halves is never the first character: a token may begin with one, not be empty.
fn split_merge(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let blank = first + merge[first..].find(' ')?;
    let (left, right) = (&merge[..blank], &merge[blank + 1..]);
    (!right.is_empty()).then_some((left, right))
}

fn damaged(reason: String) -> TextError {
    TextError::GgufVocab { reason }
}

/// Small vocabularies for the tests of this crate.
#[cfg(test)]
pub(crate) mod samples {
    use std::sync::LazyLock;

    use super::*;
    use crate::Tokenizer;
    use crate::byte_alphabet::spelling_of;

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
}

#[cfg(test)]
mod tests {
    use super::samples::{IM_END, IM_START, smollm, vocab};
    use super::*;
    use crate::Tokenizer;

    fn refusal(change: impl FnOnce(&mut GgufVocab)) -> String {
        let mut vocab = vocab("gpt2", &[("ab", 1)], &["a b"]);
        change(&mut vocab);
        Tokenizer::from_gguf(vocab).unwrap_err().to_string()
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(refusal(|v| v.model = "llama".into()).contains("\"llama\" is not supported"));
        assert!(refusal(|v| v.pre = "tekken".into()).contains("\"tekken\" is not supported"));
        assert!(refusal(|v| v.token_types.truncate(3)).contains("257 tokens but 3 token types"));
        assert!(refusal(|v| v.eos = Some(257)).contains("eos id 257"));
        assert!(refusal(|v| v.merges.push("a".into())).contains("merge 1"));
        assert!(refusal(|v| v.merges.push("a c".into())).contains("needs \"ac\""));
        assert!(refusal(|v| v.merges.push("".into())).contains("merge 1"));
        assert!(refusal(|v| v.tokens.clear()).contains("no tokens"));
    }

    #[test]
    fn merges_and_added_tokens() {
        let tokenizer = smollm();
        let hi = tokenizer.id_of("hi").unwrap();
        let think = tokenizer.id_of("<think>").unwrap();
        assert_eq!(tokenizer.encode("hi a<think>", false).unwrap(), [hi, hi + 1, think]);
        assert_eq!(tokenizer.decode(&[hi, hi + 1, think], true), "hi a<think>");
    }

    #[test]
    fn whole_words_skip_the_merges_only_for_llama() {
        let words = [("ab", 1), ("abc", 1)];
        let id =
            |pre| Tokenizer::from_gguf(vocab(pre, &words, &["a b"])).unwrap().encode("abc", false).unwrap();
        assert_eq!(id("llama-bpe"), [257]);
        assert_eq!(id("qwen2"), [256, u32::from(b'c')]);
    }

    #[test]
    fn no_merge_and_no_whole_word_reaches_a_control_token() {
        let words = [("ab", 1), ("abc", 3)];
        for pre in ["llama-bpe", "gpt2"] {
            let tokenizer = Tokenizer::from_gguf(vocab(pre, &words, &["a b", "ab c"])).unwrap();
            assert_eq!(tokenizer.encode("abc", false).unwrap(), [256, u32::from(b'c')]);
            assert_eq!(tokenizer.encode("abc", true).unwrap(), [257]);
        }
    }

    #[test]
    fn qwen_normalizes_and_the_others_do_not() {
        let text = "e\u{301}";
        let bytes = |pre| {
            let tokenizer = Tokenizer::from_gguf(vocab(pre, &[], &[])).unwrap();
            tokenizer.decode(&tokenizer.encode(text, false).unwrap(), true)
        };
        assert_eq!(bytes("qwen2"), "é");
        assert_eq!(bytes("llama-bpe"), text);
    }

    #[test]
    fn ends_and_beginnings() {
        let tokenizer = smollm();
        assert_eq!(tokenizer.eos_ids(), [IM_END]);
        assert_eq!(tokenizer.known_end_ids(), [IM_END]);
        assert_eq!(tokenizer.bos_id(), Some(IM_START));
        assert_eq!(tokenizer.encode_prompt("a", true).unwrap(), [u32::from(b'a')]);
        let mut vocab = vocab("gpt2", &[("<s>", 3)], &[]);
        (vocab.bos, vocab.add_bos) = (Some(256), Some(true));
        let tokenizer = Tokenizer::from_gguf(vocab).unwrap();
        assert_eq!(tokenizer.encode_prompt("a", true).unwrap(), [256, u32::from(b'a')]);
        assert_eq!(tokenizer.encode_prompt("<s>a", true).unwrap(), [256, u32::from(b'a')]);
        assert_eq!(tokenizer.encode_prompt("<s>", false).unwrap()[..2], [256, u32::from(b'<')]);
    }
}
