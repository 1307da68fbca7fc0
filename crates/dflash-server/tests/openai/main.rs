//! The routes of the OpenAI API and what every request passes, without a socket, over a tiny model.

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod chat;
mod completions;
mod constrained;
mod faults;
mod gate;
mod life;
mod models;
mod prefix;
mod refusals;
mod side_by_side;
mod stream;

use serde_json::{Value, json};

/// A short greedy chat with further fields.
pub fn chat(more: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A body without what differs from run to run.
pub fn steady(mut body: Value) -> Value {
    for name in ["id", "created"] {
        if !body[name].is_null() {
            body[name] = format!("[{name}]").into();
        }
    }
    for name in ["prefill_s", "decode_s", "decode_tok_s"] {
        if body["dflash"][name].is_number() {
            body["dflash"][name] = format!("[{name}]").into();
        }
    }
    body
}

/// What a stream's chunks say of one choice, put together.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// Of the first chunk.
    pub role: String,
    /// All deltas of content.
    pub content: String,
    /// All deltas of reasoning.
    pub reasoning: String,
    /// Entries of every chunk.
    pub logprobs: Vec<Value>,
    /// Every reason to finish; there should be one.
    pub finish: Vec<String>,
}

impl Said {
    /// From all chunks.
    pub fn of(chunks: &[Value], choice: usize) -> Self {
        let mut said = Self::default();
        for part in chunks.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap()) {
            if part["index"] != choice {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            said.role += &text(&part["delta"]["role"]);
            said.content += &text(&part["delta"]["content"]);
            said.reasoning += &text(&part["delta"]["reasoning_content"]);
            said.logprobs.extend(part["logprobs"]["content"].as_array().into_iter().flatten().cloned());
            said.finish.extend(part["finish_reason"].as_str().map(str::to_owned));
        }
        said
    }

    /// The same from a whole answer.
    pub fn of_choice(choice: &Value) -> Self {
        let message = &choice["message"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            role: text(&message["role"]),
            content: text(&message["content"]),
            reasoning: text(&message["reasoning_content"]),
            logprobs: choice["logprobs"]["content"].as_array().cloned().unwrap_or_default(),
            finish: vec![text(&choice["finish_reason"])],
        }
    }
}
