use crate::control::{ControlToken, ControlTokens};
use crate::known_ends::{distinct, is_known_end};
use crate::pieces::{Pieces, Spelling};
use crate::tokenizer::Parts;
use crate::vocab_kind::VocabKind;
use crate::{TextError, gguf_library};

/// `tokenizer.ggml.token_type`: text.
pub(crate) const NORMAL: i32 = 1;
/// `tokenizer.ggml.token_type`: stands for what has no token.
pub(crate) const UNKNOWN: i32 = 2;
/// `tokenizer.ggml.token_type`: the token is the model's own and never part of plain text.
pub(crate) const CONTROL: i32 = 3;
/// `tokenizer.ggml.token_type`: added to the vocabulary, matched in plain text before anything else.
pub(crate) const USER_DEFINED: i32 = 4;
/// `tokenizer.ggml.token_type`: fills up the vocabulary and stands for nothing.
pub(crate) const UNUSED: i32 = 5;
/// `tokenizer.ggml.token_type`: one byte, spelled `<0x0A>`.
pub(crate) const BYTE: i32 = 6;

/// The `tokenizer.ggml.*` keys of a GGUF file, as plain data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufVocab {
    /// `model`: `gpt2` (byte-level BPE), `llama` (SentencePiece) or `gemma4` (BPE spelled like SentencePiece).
    pub model: String,
    /// `pre`: the name of the pre-tokenizer, see [`PreTokenizer`](crate::PreTokenizer). Only `gpt2` has one.
    pub pre: String,
    /// `tokens`, by id, spelled as `model` does: in GPT-2's byte alphabet, or with `▁` for a space.
    pub tokens: Vec<String>,
    /// `token_type`, by id; empty means that all tokens are normal.
    pub token_types: Vec<i32>,
    /// `scores`, by id; only `llama` needs them.
    pub scores: Vec<f32>,
    /// `merges`: `"left right"`, best first. `llama` has none.
    pub merges: Vec<String>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: the end of a turn, where it differs from `eos`.
    pub eot: Option<u32>,
    /// `eom_token_id`: the end of a message, where it differs from both.
    pub eom: Option<u32>,
    /// `unknown_token_id`. Byte-level BPE has no use for it.
    pub unk: Option<u32>,
    /// `padding_token_id`. Nothing is padded here.
    pub pad: Option<u32>,
    /// `add_bos_token`: whether a raw prompt begins with `bos`; absent means what is usual for `model` and `pre`.
    pub add_bos: Option<bool>,
    /// `add_space_prefix`: whether a space is put before a text; absent means yes for `llama`, the only one that asks.
    pub add_space_prefix: Option<bool>,
}

impl GgufVocab {
    pub(crate) fn into_parts(mut self) -> Result<Parts, TextError> {
        self.check()?;
        let kind = VocabKind::new(&self.model, &self.pre, self.add_space_prefix)?;
        if kind.spelling() != Spelling::ByteLevel {
            self.type_out_blanks();
        }
        Ok(Parts {
            library: gguf_library::build(&self, kind)?,
            control: ControlTokens::new(self.control_tokens()).map_err(|e| damaged(e.to_string()))?,
            pieces: self.pieces(kind.spelling()).ok_or_else(|| damaged("no tokens".into()))?,
            bos: self.bos,
            prompt_prefix: self.bos.filter(|_| kind.adds_bos(self.add_bos)).into_iter().collect(),
            eos: distinct([self.eos, self.eot, self.eom]),
            known_ends: self.known_ends(),
        })
    }

    fn check(&self) -> Result<(), TextError> {
        if self.tokens.is_empty() {
            return Err(damaged("it has no tokens".into()));
        }
        let tokens = self.tokens.len();
        for (what, len) in [("token types", self.token_types.len()), ("scores", self.scores.len())] {
            if len != 0 && len != tokens {
                return Err(damaged(format!("{tokens} tokens but {len} {what}")));
            }
        }
        let named =
            [("bos", self.bos), ("eos", self.eos), ("eot", self.eot), ("eom", self.eom), ("unk", self.unk)];
        match named.iter().find(|(_, id)| id.is_some_and(|id| id as usize >= tokens)) {
            Some((name, id)) => Err(damaged(format!("{name} id {} of {tokens} tokens", id.unwrap_or(0)))),
            None => Ok(()),
        }
    }

    /// User-defined tokens are looked for in the text as it was typed, but some files spell them like the others.
    fn type_out_blanks(&mut self) {
        for id in 0..self.tokens.len() {
            if self.kind(id) == USER_DEFINED {
                self.tokens[id] = self.tokens[id].replace('▁', " ");
            }
        }
    }

    pub(crate) fn kind(&self, id: usize) -> i32 {
        self.token_types.get(id).copied().unwrap_or(NORMAL)
    }

    pub(crate) fn by_kind(&self, kind: i32) -> impl Iterator<Item = (u32, &String)> {
        let ids = (0..self.tokens.len()).filter(move |&id| self.kind(id) == kind);
        ids.map(|id| (id as u32, &self.tokens[id]))
    }

    pub(crate) fn unknown_id(&self) -> Option<u32> {
        self.unk.or_else(|| self.by_kind(UNKNOWN).next().map(|(id, _)| id))
    }

    /// Whether no plain text may become this token.
    pub(crate) fn is_hidden(&self, id: usize) -> bool {
        self.kind(id) == UNUSED || self.is_control(id)
    }

    /// Whether the token is the model's own.
    fn is_control(&self, id: usize) -> bool {
        matches!(self.kind(id), CONTROL | UNKNOWN)
    }

    fn control_tokens(&self) -> Vec<ControlToken> {
        let control = (0..self.tokens.len()).filter(|&id| self.is_control(id));
        let token = |id: usize| ControlToken {
            id: id as u32,
            content: self.tokens[id].clone(),
            ..Default::default()
        };
        control.map(token).collect()
    }

    /// Unused tokens have no bytes: a model must not choose them, and a Hugging Face tokenizer does not have them.
    fn pieces(&self, spelling: Spelling) -> Option<Pieces> {
        let tokens = self.tokens.iter().enumerate().filter(|&(id, _)| self.kind(id) != UNUSED);
        let tokens = tokens.map(|(id, token)| {
            let raw = self.is_control(id) || self.kind(id) == USER_DEFINED;
            let bytes = if raw { token.as_bytes().to_vec() } else { spelling.bytes_of(token) };
            (id as u32, bytes, self.is_control(id))
        });
        Pieces::new(spelling, tokens.collect())
    }

    /// Files differ in whether such a token is their own or user-defined.
    fn known_ends(&self) -> Vec<u32> {
        let marked = |id: &usize| matches!(self.kind(*id), CONTROL | USER_DEFINED);
        let ends = (0..self.tokens.len()).filter(marked).filter(|&id| is_known_end(&self.tokens[id]));
        ends.map(|id| id as u32).collect()
    }
}

pub(crate) fn damaged(reason: String) -> TextError {
    TextError::GgufVocab { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;
    use crate::samples::{IM_END, IM_START, smollm, vocab};

    fn refusal(change: impl FnOnce(&mut GgufVocab)) -> String {
        let mut vocab = vocab("gpt2", &[("ab", 1)], &["a b"]);
        change(&mut vocab);
        Tokenizer::from_gguf(vocab).unwrap_err().to_string()
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(refusal(|v| v.model = "t5".into()).contains("\"t5\" is not supported"));
        assert!(refusal(|v| v.model = "llama".into()).contains("needs scores"));
        assert!(refusal(|v| v.model = "gemma4".into()).contains("token for every byte"));
        assert!(refusal(|v| v.scores = vec![0.0]).contains("257 tokens but 1 scores"));
        assert!(refusal(|v| v.eom = Some(300)).contains("eom id 300"));
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

    #[test]
    fn a_file_that_does_not_say_begins_as_its_kind_does() {
        let prefix = |pre| {
            let mut vocab = vocab(pre, &[("<s>", 3)], &[]);
            vocab.bos = Some(256);
            Tokenizer::from_gguf(vocab).unwrap().encode_prompt("", false).unwrap()
        };
        assert_eq!((prefix("lfm2"), prefix("qwen35")), (vec![256], vec![]));
    }

    #[test]
    fn padding_stands_for_nothing() {
        let tokenizer =
            Tokenizer::from_gguf(vocab("llama-bpe", &[("[PAD256]", 5), ("x1", 1), ("pad", 5)], &[])).unwrap();
        assert_eq!(tokenizer.vocab_len(), 258);
        assert_eq!(tokenizer.decode(&[256, 257, 258, 259], false), "x1");
        assert_eq!(tokenizer.encode("pad", true).unwrap(), b"pad".map(u32::from));
    }

    #[test]
    fn ends_are_known_whether_they_are_control_or_user_defined() {
        let extra = [("<turn|>", 3), ("<|tool_response>", 4), ("<eos>", 1)];
        assert_eq!(Tokenizer::from_gguf(vocab("gpt2", &extra, &[])).unwrap().known_end_ids(), [256, 257]);
    }
}
