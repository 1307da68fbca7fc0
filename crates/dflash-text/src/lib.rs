//! Text on either side of the engine: what turns a request into token ids, and token ids into text.
//!
//! Nothing here knows about models, HTTP or the decode cycle, and no string goes further down than this crate.
//!
//! - [`Tokenizer`] reads a Hugging Face `tokenizer.json` or a GGUF vocabulary ([`GgufVocab`]): byte-level BPE, or
//!   SentencePiece with its bytes.
//! - [`ChatTemplate`] renders a conversation into a [`Rendered`] prompt, which remembers which control tokens
//!   the *template* wrote, so that the same characters inside a message stay ordinary text.
//! - [`ChatFormat`] knows how conversations are held with a model, and makes a prompt of a [`ChatRequest`].
//! - [`AnswerParser`] splits an answer into reasoning, content and tool calls as its ids come.
//! - [`Detokenizer`] turns committed ids into text, one id at a time, never splitting a character.
//! - [`StopStrings`] cuts streamed text exactly before a stop string; [`TextGuard`] does so over token ids.

#![forbid(unsafe_code)]

mod answer;
mod byte_alphabet;
mod chat_format;
mod chat_request;
mod chat_template;
mod control;
mod conversation;
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
mod json_scanner;
mod known_ends;
mod limits;
mod marked_source;
mod message;
mod namespaces;
mod outlet;
mod piece;
mod pieces;
mod plain_tools;
mod pretokenizer;
mod python_literal;
mod python_text;
mod reasoning;
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
mod symbol;
mod template_habits;
mod template_size;
mod tokenizer;
mod tokenizer_config;
mod tokenizer_json;
mod tokenizer_parts;
mod tool_format;
mod tool_set;
mod vocab_kind;
mod wire_message;

pub use answer::{AnswerFormat, AnswerParser};
pub use chat_format::{ChatFormat, ChatPrompt};
pub use chat_request::ChatRequest;
pub use chat_template::ChatTemplate;
pub use detokenizer::Detokenizer;
pub use error::TextError;
pub use gguf_vocab::GgufVocab;
pub use guard::{GuardCheckpoint, TextGuard, Verdict};
pub use message::Message;
pub use piece::Piece;
pub use pretokenizer::PreTokenizer;
pub use reasoning::ReasoningMarkers;
pub use render_request::RenderRequest;
pub use rendered::{Rendered, Segment};
pub use special_tokens::SpecialTokens;
pub use stop::{StopPush, StopStrings};
pub use strftime::strftime;
pub use tokenizer::Tokenizer;
pub use tokenizer_config::TokenizerConfig;
pub use tool_format::ToolFormat;
