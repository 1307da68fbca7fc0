use serde_json::{Map, Value};

/// A conversation as it comes over the wire.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// Messages in OpenAI's form: content as a string, parts, null or absent.
    pub messages: Vec<Value>,
    /// Tools in OpenAI's form: `{"type": "function", "function": {...}}`.
    pub tools: Vec<Value>,
    /// Whether the model is shown the tools; without, those of earlier turns are still understood.
    pub tools_wanted: bool,
    /// Further variables of the template, such as `enable_thinking`.
    pub template_kwargs: Map<String, Value>,
    /// A text at the end of the system message.
    pub instruction: Option<String>,
}

impl ChatRequest {
    /// Messages alone.
    pub fn new(messages: Vec<Value>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Whether tools are shown, or were called earlier.
    pub(crate) fn has_tools(&self) -> bool {
        let is_about = |message: &Value| message["role"] == "tool" || !message["tool_calls"].is_null();
        (self.tools_wanted && !self.tools.is_empty()) || self.messages.iter().any(is_about)
    }
}

impl Default for ChatRequest {
    /// Nothing said yet; tools that are added are shown.
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            tools_wanted: true,
            template_kwargs: Map::new(),
            instruction: None,
        }
    }
}
