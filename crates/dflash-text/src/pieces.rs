//! The bytes of every token: one flat table, so that decoding is a copy.

use serde_json::Value;

use crate::{TextError, byte_alphabet};

/// How a vocabulary spells bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// GPT-2's alphabet.
    ByteLevel,
    /// SentencePiece: `▁` is a space, `<0xAB>` a byte.
    Sentence {
        /// The first space of a text was added when encoding and is dropped again.
        strip_leading_space: bool,
    },
}

impl Spelling {
    /// How tokens spell bytes, from the `decoder` of `tokenizer.json`.
    pub fn of_decoder(decoder: &Value) -> Result<Self, TextError> {
        let steps = match decoder["type"].as_str() {
            Some("Sequence") => decoder["decoders"].as_array().cloned().unwrap_or_default(),
            _ => vec![decoder.clone()],
        };
        let is = |step: &Value, kind: &str| step["type"] == kind;
        if steps.iter().any(|step| is(step, "ByteLevel")) {
            return Ok(Self::ByteLevel);
        }
        let underlines =
            |step: &Value| is(step, "Metaspace") || (is(step, "Replace") && step["content"] == " ");
        if steps.iter().any(underlines) {
            let strips = |s: &Value| is(s, "Strip") || (is(s, "Metaspace") && s["prepend_scheme"] != "never");
            return Ok(Self::Sentence { strip_leading_space: steps.iter().any(strips) });
        }
        Err(TextError::UnsupportedTokenizer { what: format!("the decoder {}", decoder["type"]) })
    }

    pub fn bytes_of(self, token: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => byte_alphabet::bytes_of(token),
            Self::Sentence { .. } => sentence_bytes(token),
        }
    }

    pub fn strips_leading_space(self) -> bool {
        self == Self::Sentence { strip_leading_space: true }
    }
}

fn sentence_bytes(token: &str) -> Vec<u8> {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
    match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None => token.replace('▁', " ").into_bytes(),
    }
}

/// The bytes of every id, and which ids are control tokens.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    control: Vec<bool>,
    known: Vec<bool>,
    pub strips_leading_space: bool,
}

impl Pieces {
    /// Builds the table from `(id, bytes, is control)`; ids left out decode to nothing.
    ///
    /// `None` when the ids are so sparse that a table makes no sense, which only a damaged file does.
    pub fn new(spelling: Spelling, mut tokens: Vec<(u32, Vec<u8>, bool)>) -> Option<Self> {
        tokens.sort_by_key(|(id, ..)| *id);
        tokens.dedup_by_key(|(id, ..)| *id);
        let len = tokens.last().map_or(0, |(id, ..)| *id as usize + 1);
        if len > 16 * tokens.len() + 65_536 {
            return None;
        }
        let mut table = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(len),
            control: vec![false; len],
            known: vec![false; len],
            strips_leading_space: spelling.strips_leading_space(),
        };
        for (id, bytes, is_control) in tokens {
            table.fill_to(id as usize);
            table.bytes.extend(bytes);
            table.control[id as usize] = is_control;
            table.known[id as usize] = true;
            table.ends.push(table.bytes.len() as u32);
        }
        Some(table)
    }

    fn fill_to(&mut self, id: usize) {
        self.ends.resize(id, self.bytes.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, id: u32) -> Option<&[u8]> {
        let at = id as usize;
        let end = *self.ends.get(at)? as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.known[at].then(|| &self.bytes[start..end])
    }

    pub fn is_control(&self, id: u32) -> bool {
        self.control.get(id as usize).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_unknown_and_sparse_ids_refused() {
        let token = |id, text: &str| (id, text.as_bytes().to_vec(), false);
        let pieces = Pieces::new(Spelling::ByteLevel, vec![token(3, "c"), token(1, "ab")]).unwrap();
        assert_eq!(pieces.len(), 4);
        assert_eq!((pieces.get(0), pieces.get(1), pieces.get(2)), (None, Some(&b"ab"[..]), None));
        assert_eq!((pieces.get(3), pieces.get(4)), (Some(&b"c"[..]), None));
        assert!(Pieces::new(Spelling::ByteLevel, vec![token(u32::MAX, "x")]).is_none());
    }

    #[test]
    fn sentence_spelling() {
        let spelling = Spelling::Sentence { strip_leading_space: false };
        assert_eq!(spelling.bytes_of("▁a"), b" a");
        assert_eq!(spelling.bytes_of("<0xE2>"), [0xE2]);
        assert_eq!(spelling.bytes_of("<0xZZ>"), b"<0xZZ>");
    }
}
