use std::path::PathBuf;

use crate::ModelError;
use crate::gguf::Metadata;

/// Where the text side of a model is found: everything a tokenizer needs, uninterpreted.
#[derive(Debug, Clone)]
pub enum TextAssets {
    /// A directory in HF layout with `tokenizer.json` and its companions.
    Hf {
        /// The directory.
        dir: PathBuf,
    },
    /// The vocabulary that a GGUF file carries.
    Gguf(Box<GgufVocabulary>),
}

/// `tokenizer.*` of a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`, such as `gpt2`, `llama` or `gemma4`.
    pub model: String,
    /// `tokenizer.ggml.pre`: name of the pre-tokenizer.
    pub pre: Option<String>,
    /// Text of every id, in the alphabet of `model`.
    pub tokens: Vec<String>,
    /// Kind of every id: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte. May be empty.
    pub token_types: Vec<i64>,
    /// Score of every id (SentencePiece models). May be empty.
    pub scores: Vec<f32>,
    /// BPE merges in order of rank, two pieces with a space between. May be empty.
    pub merges: Vec<String>,
    /// Beginning of text.
    pub bos_id: Option<u32>,
    /// End of text or turn.
    pub eos_id: Option<u32>,
    /// End of turn.
    pub eot_id: Option<u32>,
    /// End of message.
    pub eom_id: Option<u32>,
    /// Unknown token.
    pub unk_id: Option<u32>,
    /// Padding.
    pub pad_id: Option<u32>,
    /// Whether text begins with `bos_id`.
    pub add_bos: Option<bool>,
    /// Whether text ends with `eos_id`.
    pub add_eos: Option<bool>,
    /// Whether a space is put before the text (SentencePiece).
    pub add_space_prefix: Option<bool>,
    /// The chat template, Jinja source.
    pub chat_template: Option<String>,
    /// The chat template for conversations with tools, where a file has one of its own for them.
    pub tool_use_template: Option<String>,
}

impl GgufVocabulary {
    /// Reads the metadata.
    ///
    /// # Errors
    /// A missing model or token list, values of another type, or lists of another length.
    pub(crate) fn read(metadata: &Metadata) -> Result<Self, ModelError> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let id = |name: &str| metadata.id(&key(name));
        let texts = |name: &str| metadata.texts(&key(name)).map(|list| list.unwrap_or_default().to_vec());
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let model = owned(metadata.text(&key("model"))?).ok_or_else(|| metadata.missing(&key("model")))?;
        let vocabulary = Self {
            model,
            pre: owned(metadata.text(&key("pre"))?),
            tokens: texts("tokens")?,
            token_types: metadata.integers(&key("token_type"))?.unwrap_or_default().to_vec(),
            scores: metadata.floats(&key("scores"))?.unwrap_or_default().to_vec(),
            merges: texts("merges")?,
            bos_id: id("bos_token_id")?,
            eos_id: id("eos_token_id")?,
            eot_id: id("eot_token_id")?,
            eom_id: id("eom_token_id")?,
            unk_id: id("unknown_token_id")?,
            pad_id: id("padding_token_id")?,
            add_bos: metadata.flag(&key("add_bos_token"))?,
            add_eos: metadata.flag(&key("add_eos_token"))?,
            add_space_prefix: metadata.flag(&key("add_space_prefix"))?,
            chat_template: owned(metadata.text("tokenizer.chat_template")?),
            tool_use_template: owned(metadata.text("tokenizer.chat_template.tool_use")?),
        };
        vocabulary.check(metadata)
    }

    fn check(self, metadata: &Metadata) -> Result<Self, ModelError> {
        let count = self.tokens.len();
        if count == 0 {
            return Err(metadata.missing("tokenizer.ggml.tokens"));
        }
        for (key, len) in [("token_type", self.token_types.len()), ("scores", self.scores.len())] {
            if len != 0 && len != count {
                let expected = format!("as long as the {count} tokens");
                return Err(metadata.bad(&format!("tokenizer.ggml.{key}"), &expected));
            }
        }
        Ok(self)
    }

    /// The template for a conversation: the one for tools when there are tools and it exists.
    pub fn template_for(&self, with_tools: bool) -> Option<&str> {
        let tool_use = self.tool_use_template.as_deref().filter(|_| with_tools);
        tool_use.or(self.chat_template.as_deref())
    }

    /// Ids that end a generation by the file itself.
    pub fn stop_ids(&self) -> Vec<u32> {
        union([self.eos_id, self.eot_id, self.eom_id].into_iter().flatten())
    }
}

/// The ids without repetition, in order.
pub(crate) fn union(ids: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut unique = Vec::new();
    for id in ids {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    unique
}
