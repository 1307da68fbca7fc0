use serde_json::{Map, Value};

use crate::Message;

/// Roles are written by programs; these cannot spell a control token.
const KNOWN_ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// What one conversation gives to its template.
#[derive(Debug, Clone)]
pub struct RenderRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools' JSON schemas, as sent; none at all is `None` for the template.
    pub tools: Vec<Value>,
    /// Whether the prompt ends with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Further variables of the template, such as `enable_thinking`.
    pub extra: Map<String, Value>,
    /// Unix seconds for `strftime_now`; absent means now, in UTC.
    pub now: Option<i64>,
}

impl RenderRequest {
    /// A conversation that the assistant is to continue.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, tools: Vec::new(), add_generation_prompt: true, extra: Map::new(), now: None }
    }

    /// Everything in the request that a person may have typed, one after the other: once without the keys of
    /// objects, because a template may put neighbouring strings together, and once with them.
    pub(crate) fn typed_text(&self) -> String {
        let mut out = String::new();
        for with_keys in [false, true] {
            let mut collect = |key: &str, value: &Value| collect_text(key, value, with_keys, &mut out);
            for (key, value) in self.messages.iter().flat_map(|message| message.fields()) {
                let harmless = key == "role" && KNOWN_ROLES.iter().any(|role| value == role);
                if !harmless {
                    collect(key, value);
                }
            }
            self.tools.iter().for_each(|tool| collect("", tool));
            self.extra.iter().for_each(|(key, value)| collect(key, value));
        }
        out
    }
}

fn collect_text(key: &str, value: &Value, with_keys: bool, out: &mut String) {
    if with_keys {
        out.push_str(key);
    }
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => items.iter().for_each(|item| collect_text("", item, with_keys, out)),
        Value::Object(map) => map.iter().for_each(|(key, item)| collect_text(key, item, with_keys, out)),
        _ => {}
    }
}
