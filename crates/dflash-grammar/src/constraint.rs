use serde_json::Value;

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Constraint {
    /// One JSON object, whatever is in it.
    JsonObject,
    /// One JSON value that fits a JSON schema. A keyword that cannot be honoured is refused.
    JsonSchema(Value),
    /// Text that a regular expression matches from its first to its last character.
    Regex(String),
    /// Text of a grammar in the Lark syntax of `llguidance`, without its `%json`.
    Lark(String),
}

/// Reasoning before the constrained answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// What opens it, such as `<think>`.
    pub open: String,
    /// What closes it, such as `</think>`.
    pub close: String,
    /// Whether the prompt has opened it already; if not, the model may.
    pub begun: bool,
}
