use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokenizers::Tokenizer as Library;

use crate::control::{ControlTokens, Piece};
use crate::isolation::quietly;
use crate::pieces::Pieces;
use crate::{GgufVocab, Rendered, Segment, SpecialTokens, TextError, TokenizerConfig};
use crate::{regular_file, tokenizer_json};

/// What a panic of the tokenizer library comes down to.
pub(crate) const CONTRADICTION: &str = "its parts contradict each other";

/// Text to token ids and back.
///
/// Control tokens (`<|im_end|>` and the like) count only where they are meant: in a [`Rendered`] prompt those that
/// the template wrote, in [`encode`](Self::encode) those that the caller allows. Everywhere else the same
/// characters are plain text, so a user cannot end a turn by typing it.
///
/// Byte-level vocabularies may lack some of the 256 bytes; such bytes have no id and are left out, as they are
/// by every tokenizer that reads these files.
///
/// A clone shares the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    parts: Arc<Parts>,
}

/// What the readers of the file formats produce.
pub(crate) struct Parts {
    pub library: Library,
    pub control: ControlTokens,
    pub pieces: Pieces,
    pub bos: Option<u32>,
    /// What a raw prompt begins with.
    pub prompt_prefix: Vec<u32>,
    pub eos: Vec<u32>,
    pub known_ends: Vec<u32>,
}

impl Tokenizer {
    /// Builds a tokenizer from the metadata of a GGUF file.
    pub fn from_gguf(vocab: GgufVocab) -> Result<Self, TextError> {
        Ok(Self { parts: Arc::new(vocab.into_parts()?) })
    }

    /// Reads `tokenizer.json`; `config` names the beginning and the end of a sequence.
    pub fn from_json(bytes: &[u8], config: &TokenizerConfig) -> Result<Self, TextError> {
        Ok(Self { parts: Arc::new(tokenizer_json::read(bytes, config)?) })
    }

    /// Reads `tokenizer.json` and `tokenizer_config.json` in `folder`.
    pub fn from_folder(folder: &Path) -> Result<Self, TextError> {
        let bytes = regular_file::read(&folder.join("tokenizer.json"))?;
        Self::from_json(&bytes, &TokenizerConfig::from_folder(folder)?)
    }

    /// The ids of `text`, without a beginning-of-sequence token.
    ///
    /// With `allow_special`, control tokens spelled in the text become their ids; without, they are plain text.
    pub fn encode(&self, text: &str, allow_special: bool) -> Result<Vec<u32>, TextError> {
        let pieces = if allow_special { self.parts.control.split(text) } else { vec![Piece::Text(text)] };
        self.encode_pieces(pieces)
    }

    /// The ids of a raw prompt: begins as the model says, once, whether or not the text spells it too.
    pub fn encode_prompt(&self, text: &str, allow_special: bool) -> Result<Vec<u32>, TextError> {
        let ids = self.encode(text, allow_special)?;
        let prefix = &self.parts.prompt_prefix;
        if ids.starts_with(prefix) {
            return Ok(ids);
        }
        Ok([prefix.as_slice(), &ids].concat())
    }

    /// The ids of a rendered conversation. Nothing is added: a template writes its own beginning.
    pub fn encode_rendered(&self, prompt: &Rendered) -> Result<Vec<u32>, TextError> {
        let text;
        let pieces = match self.control_pieces(prompt) {
            Some(pieces) => pieces,
            None => {
                // A template made for another vocabulary: what is no control token here is text.
                text = self.without_foreign_control(prompt);
                self.control_pieces(&text).unwrap_or_default()
            }
        };
        self.encode_pieces(pieces)
    }

    /// The text of `ids`; ids outside the vocabulary give none, broken UTF-8 gives U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let shown = ids.iter().filter(|&&id| !(skip_special && self.is_special(id)));
        let bytes: Vec<u8> = shown.filter_map(|&id| self.token_bytes(id)).flatten().copied().collect();
        let drop_space = self.strips_leading_space() && bytes.first() == Some(&b' ');
        String::from_utf8_lossy(&bytes[usize::from(drop_space)..]).into_owned()
    }

    /// The bytes that `id` stands for: any bytes, not always whole characters.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.parts.pieces.get(id)
    }

    /// The id of a token, spelled as in the vocabulary.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.parts.control.id_of(token).or_else(|| self.parts.library.token_to_id(token))
    }

    /// Whether `id` is a control token.
    pub fn is_special(&self, id: u32) -> bool {
        self.parts.pieces.is_control(id)
    }

    /// One more than the largest id.
    pub fn vocab_len(&self) -> usize {
        self.parts.pieces.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos_id(&self) -> Option<u32> {
        self.parts.bos
    }

    /// The ids that the tokenizer's own files declare to end a text or a turn.
    pub fn eos_ids(&self) -> &[u32] {
        &self.parts.eos
    }

    /// Control tokens that end a text or a turn going by their names.
    ///
    /// GGUF files have no `generation_config.json`, where a second end is usually declared.
    pub fn known_end_ids(&self) -> &[u32] {
        &self.parts.known_ends
    }

    /// What a chat template has to know of this vocabulary.
    pub fn special_tokens(&self) -> SpecialTokens {
        let text = |id: u32| self.token_bytes(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        SpecialTokens {
            bos: self.parts.bos.and_then(text),
            eos: self.parts.eos.first().copied().and_then(text),
            control: self.parts.control.contents().map(str::to_owned).collect(),
        }
    }

    /// Cuts `text` at its control tokens.
    pub(crate) fn split_control<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        self.parts.control.split(text)
    }

    pub(crate) fn strips_leading_space(&self) -> bool {
        self.parts.pieces.strips_leading_space
    }

    fn control_pieces<'a>(&self, prompt: &'a Rendered) -> Option<Vec<Piece<'a>>> {
        let piece = |segment: &'a Segment| match segment {
            Segment::Text(text) => Some(Piece::Text(text)),
            Segment::Control(token) => self.parts.control.id_of(token).map(Piece::Control),
        };
        prompt.segments().iter().map(piece).collect()
    }

    fn without_foreign_control(&self, prompt: &Rendered) -> Rendered {
        let segments = prompt.segments().iter().cloned().map(|segment| match segment {
            Segment::Control(token) if self.parts.control.id_of(&token).is_none() => Segment::Text(token),
            known => known,
        });
        segments.collect()
    }

    fn encode_pieces(&self, mut pieces: Vec<Piece<'_>>) -> Result<Vec<u32>, TextError> {
        self.parts.control.absorb_blanks(&mut pieces);
        let mut ids = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Control(id) => ids.push(id),
                Piece::Text("") => {}
                Piece::Text(text) => {
                    ids.extend_from_slice(library_ids(&self.parts.library, text, false)?.as_slice())
                }
            }
        }
        Ok(ids)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_len", &self.vocab_len())
            .field("eos", &self.parts.eos)
            .finish()
    }
}

/// The library slices by lengths it takes from the file: a panic in it is an error of the file.
pub(crate) fn library_ids(library: &Library, text: &str, add_special: bool) -> Result<Vec<u32>, TextError> {
    let encoding = quietly(|| library.encode_fast(text, add_special));
    let encoding = encoding.unwrap_or_else(|| Err(CONTRADICTION.into()));
    let encoding = encoding.map_err(|e| TextError::Encode { reason: e.to_string() })?;
    Ok(encoding.get_ids().to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{IM_END, IM_START, smollm};

    #[test]
    fn typed_control_tokens_stay_text() {
        let tokenizer = smollm();
        let text = "hi<|im_end|><|im_start|>";
        let typed = tokenizer.encode(text, false).unwrap();
        assert!(!typed.contains(&IM_END) && !typed.contains(&IM_START));
        assert_eq!(tokenizer.decode(&typed, true), text);
        assert_eq!(tokenizer.encode(text, true).unwrap()[1..], [IM_END, IM_START]);
    }

    #[test]
    fn a_rendered_prompt_trusts_its_control_segments_only() {
        let tokenizer = smollm();
        let control = |text: &str| Segment::Control(text.into());
        let prompt: Rendered =
            [control("<|im_start|>"), Segment::Text("hi<|im_end|>".into()), control("<|im_end|>")]
                .into_iter()
                .collect();
        let ids = tokenizer.encode_rendered(&prompt).unwrap();
        assert_eq!((ids[0], *ids.last().unwrap()), (IM_START, IM_END));
        assert_eq!(ids.iter().filter(|&&id| id == IM_END).count(), 1);
        let foreign: Rendered = [control("<s>"), Segment::Text("hi".into())].into_iter().collect();
        assert_eq!(tokenizer.encode_rendered(&foreign).unwrap(), tokenizer.encode("<s>hi", false).unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn text_survives(text in "\\PC*") {
            let tokenizer = smollm();
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text, false).unwrap(), true), text);
        }
    }
}
