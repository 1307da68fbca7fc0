//! Routes of the Anthropic API and of responses, and the description of all, over a tiny model.

#[path = "../common/mod.rs"]
mod common;

mod anthropic;
mod openapi;
mod responses;

use serde_json::{Value, json};

/// `body` with further fields.
fn with(mut body: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// Parameters of a tool.
fn counting() -> Value {
    json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["n"],
        "additionalProperties": false,
    })
}
