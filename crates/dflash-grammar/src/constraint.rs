use dflash_text::{ReasoningMarkers, ToolFormat};
use serde_json::Value;

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// One JSON object, whatever is in it.
    JsonObject,
    /// One JSON value that fits a JSON schema. A keyword that cannot be honoured is refused.
    JsonSchema(Value),
    /// Calls of tools in the form that the model writes them in.
    ToolCalls {
        /// That form.
        format: ToolFormat,
        /// Declared tools, as `{"type": "function", "function": {"name", "parameters", "strict"}}` or the inner object
        /// alone. The schema of a strict tool is honoured whole or refused; any other is honoured as far as it can be.
        tools: Vec<Value>,
        /// Which tools, and whether any.
        choice: ToolChoice,
        /// Whether there may be several calls.
        parallel: bool,
    },
    /// What any of these allows; none of them may begin as another does.
    AnyOf(Vec<Constraint>),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text that a regular expression matches from its first to its last character.
    Regex(String),
    /// Text of a grammar in the Lark syntax of `llguidance`, without its `%json`.
    Lark(String),
}

/// Whether tools are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// Text, with calls or without; a call that is begun fits.
    Auto,
    /// One call at least, and no text.
    Required,
    /// One call of this tool.
    Named(String),
}

/// Reasoning before the constrained answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// What opens and closes a block of it.
    pub markers: ReasoningMarkers,
    /// Whether the prompt has opened it already; if not, the model may.
    pub begun: bool,
}
