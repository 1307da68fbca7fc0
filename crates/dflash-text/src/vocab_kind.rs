//! What kinds of vocabulary a GGUF file may carry.

use crate::pieces::Spelling;
use crate::{PreTokenizer, TextError};

const SUPPORTED: &str = "gpt2, llama, gemma4";

/// `tokenizer.ggml.model`, with what goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VocabKind {
    /// `gpt2`: byte-level BPE.
    ByteLevel(PreTokenizer),
    /// `llama`: SentencePiece. Pieces have scores and merges are not listed.
    Scored {
        /// A space is put before every run of text.
        space_prefix: bool,
    },
    /// `gemma4`: spelled like SentencePiece, with listed merges.
    Listed,
}

impl VocabKind {
    /// The kind by its names; `space_prefix` is `add_space_prefix`, which SentencePiece takes for granted.
    pub fn new(model: &str, pre: &str, space_prefix: Option<bool>) -> Result<Self, TextError> {
        match model {
            "gpt2" => Ok(Self::ByteLevel(pre.parse()?)),
            "llama" => Ok(Self::Scored { space_prefix: space_prefix.unwrap_or(true) }),
            "gemma4" => Ok(Self::Listed),
            other => {
                Err(TextError::UnsupportedModel { model: other.to_owned(), supported: SUPPORTED.to_owned() })
            }
        }
    }

    pub fn spelling(self) -> Spelling {
        match self {
            Self::ByteLevel(_) => Spelling::ByteLevel,
            Self::Scored { space_prefix } => Spelling::Sentence { strip_leading_space: space_prefix },
            Self::Listed => Spelling::Sentence { strip_leading_space: false },
        }
    }

    /// Whether a raw prompt begins with the beginning of sequence, given `add_bos_token`.
    ///
    /// Early Gemma 4 files say it does not; the model was never trained so, and llama.cpp overrides them too.
    pub fn adds_bos(self, said: Option<bool>) -> bool {
        match self {
            Self::ByteLevel(pre) => said.unwrap_or(pre.adds_bos()),
            Self::Scored { .. } => said.unwrap_or(true),
            Self::Listed => true,
        }
    }
}
