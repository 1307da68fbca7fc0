use std::path::PathBuf;

/// Everything that can go wrong between text and token ids.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `tokenizer.json` is damaged, or uses something the tokenizer library does not know.
    #[error("not a usable tokenizer.json: {reason}")]
    TokenizerJson {
        /// What the reader stumbled over.
        reason: String,
    },
    /// `tokenizer_config.json` (or a chat template in it) has the wrong form.
    #[error("not a usable tokenizer_config.json: {reason}")]
    TokenizerConfig {
        /// What the reader stumbled over.
        reason: String,
    },
    /// A GGUF vocabulary contradicts itself.
    #[error("not a usable GGUF vocabulary: {reason}")]
    GgufVocab {
        /// The contradiction.
        reason: String,
    },
    /// `tokenizer.ggml.model` names a kind of tokenizer that is not built.
    #[error("tokenizer model {model:?} is not supported (supported: {supported})")]
    UnsupportedModel {
        /// The name found in the file.
        model: String,
        /// The names that work, joined by commas.
        supported: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not built.
    #[error("pre-tokenizer {name:?} is not supported (supported: {supported})")]
    UnsupportedPreTokenizer {
        /// The name found in the file.
        name: String,
        /// The names that work, joined by commas.
        supported: String,
    },
    /// `tokenizer.json` is readable but asks for something that would give other ids here.
    #[error("tokenizer.json asks for {what}, which is not supported")]
    UnsupportedTokenizer {
        /// The part in question.
        what: String,
    },
    /// A special token is named that the vocabulary does not hold.
    #[error("{role} token {token:?} is not in the vocabulary")]
    UnknownSpecialToken {
        /// `bos`, `eos` and so on.
        role: &'static str,
        /// The token's text.
        token: String,
    },
    /// The tokenizer could not encode a text.
    #[error("cannot encode the text: {reason}")]
    Encode {
        /// What the tokenizer library said.
        reason: String,
    },
    /// The chat template does not compile.
    #[error("chat template does not compile (line {line}): {reason}")]
    TemplateSyntax {
        /// Line in the template, from 1; 0 when unknown.
        line: usize,
        /// What the compiler said.
        reason: String,
    },
    /// The chat template uses a filter, test, method or function that is not there.
    #[error("chat template uses the unknown {kind} {name:?} (line {line})")]
    TemplateUnsupported {
        /// `filter`, `test`, `method` or `function`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Line in the template, from 1.
        line: usize,
    },
    /// The template itself refused the conversation with `raise_exception`.
    #[error("the chat template refused the conversation: {message}")]
    TemplateRaised {
        /// The template's own words.
        message: String,
    },
    /// Rendering failed.
    #[error("chat template failed (line {line}): {reason}")]
    TemplateRender {
        /// Line in the template, from 1; 0 when unknown.
        line: usize,
        /// What the renderer said.
        reason: String,
    },
    /// The request spells a control token, and this template gives no way to tell it from the template's own.
    #[error(
        "the request contains the control token {token:?}, which this chat template cannot carry as text"
    )]
    ControlTokenInRequest {
        /// The control token.
        token: String,
    },
    /// A template keyword has a name the renderer itself supplies.
    #[error("template keyword {name:?} is set by the renderer and cannot be given")]
    ReservedKeyword {
        /// The keyword.
        name: String,
    },
    /// There is no chat template to put a conversation into.
    #[error("the model has no chat template; send the text as the model is to read it to /v1/completions")]
    NoChatTemplate,
    /// A message is not what a chat template can take.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// What is wrong with it.
        reason: String,
    },
    /// A content part is not text.
    #[error("content part of type {kind:?} is not supported (supported: \"text\")")]
    UnsupportedContentPart {
        /// The part's `type`.
        kind: String,
    },
    /// An empty stop string would stop before the first token.
    #[error("a stop string must not be empty")]
    EmptyStopString,
}
