//! Text on either side of the engine: what turns a request into token ids, and token ids into text.
//!
//! Nothing here knows about models, HTTP or the decode cycle, and no string goes further down than this crate.
//!
//! - [`Tokenizer`] reads a Hugging Face `tokenizer.json` or a GGUF vocabulary ([`GgufVocab`]): byte-level BPE, or
//!   SentencePiece with its bytes.
//! - [`ChatTemplate`] renders a conversation into a [`Rendered`] prompt, which remembers which control tokens
//!   the *template* wrote, so that the same characters inside a message stay ordinary text.
//! - [`Detokenizer`] turns committed ids into text, one id at a time, never splitting a character.
//! - [`StopStrings`] cuts streamed text exactly before a stop string; [`TextGuard`] does so over token ids.

#![forbid(unsafe_code)]

mod byte_alphabet;
mod chat_template;
mod control;
mod detokenizer;
mod error;
mod generation_tags;
mod gguf_library;
mod gguf_vocab;
mod guard;
mod harmless;
mod isolation;
mod jinja;
mod jinja_lint;
mod known_ends;
mod limits;
mod marked_source;
mod message;
mod namespaces;
mod pieces;
mod pretokenizer;
mod python_text;
mod regular_file;
mod render_request;
mod rendered;
#[cfg(test)]
mod samples;
mod score_merges;
#[cfg(test)]
mod sentence_tests;
mod special_tokens;
mod stop;
mod strftime;
mod template_size;
mod tokenizer;
mod tokenizer_config;
mod tokenizer_json;
mod tokenizer_parts;
mod vocab_kind;

pub use chat_template::ChatTemplate;
pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use gguf_vocab::GgufVocab;
pub use guard::{GuardCheckpoint, TextGuard, Verdict};
pub use message::Message;
pub use pretokenizer::PreTokenizer;
pub use render_request::RenderRequest;
pub use rendered::{Rendered, Segment};
pub use special_tokens::SpecialTokens;
pub use stop::{StopPush, StopStrings};
pub use strftime::strftime;
pub use tokenizer::Tokenizer;
pub use tokenizer_config::TokenizerConfig;
