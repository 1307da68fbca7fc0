use serde_json::{Value, json};

use super::content::Content;
use super::error::{AnthropicError, request_id};
use crate::ApiError;
use crate::generation::{Finish, Piece, Usage};
use crate::transcript::{End, Transcript};

/// The answer of `/v1/messages`, as it grows.
#[derive(Debug)]
pub struct Message {
    id: String,
    model: String,
    prompt_tokens: usize,
    content: Content,
    end: Option<Ended>,
}

#[derive(Debug)]
struct Ended {
    stop_reason: &'static str,
    stop_sequence: Option<String>,
    usage: Usage,
    extension: Value,
}

impl Message {
    /// One without content.
    pub fn new(id: String, model: String, prompt_tokens: usize) -> Self {
        Self { id, model, prompt_tokens, content: Content::default(), end: None }
    }

    /// The message so far.
    pub fn to_json(&self) -> Value {
        let mut message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.content.to_json(),
            "stop_reason": null,
            "stop_sequence": null,
            "stop_details": null,
            "container": null,
            "usage": usage(&Usage { prompt: self.prompt_tokens, ..Usage::default() }),
        });
        if let Some(end) = &self.end {
            message["stop_reason"] = end.stop_reason.into();
            message["stop_sequence"] = end.stop_sequence.clone().into();
            message["usage"] = usage(&end.usage);
            message["dflash"] = end.extension.clone();
        }
        message
    }
}

impl Transcript for Message {
    fn begin(&mut self) -> Vec<Value> {
        vec![json!({"type": "message_start", "message": self.to_json()})]
    }

    fn pieces(&mut self, pieces: Vec<Piece>) -> Vec<Value> {
        pieces.into_iter().flat_map(|piece| self.content.push(piece)).collect()
    }

    fn end(&mut self, end: &End) -> Vec<Value> {
        let mut events = self.content.close();
        let end = self.end.insert(Ended {
            stop_reason: stop_reason(end),
            stop_sequence: end.stop.clone(),
            usage: Usage::of(&end.stats, end.reasoning),
            extension: Value::Null,
        });
        events.push(json!({
            "type": "message_delta",
            "delta": {
                "stop_reason": end.stop_reason,
                "stop_sequence": end.stop_sequence,
                "stop_details": null,
                "container": null,
            },
            "usage": usage(&end.usage),
            "dflash": end.extension,
        }));
        events.push(json!({"type": "message_stop"}));
        events
    }

    fn fail(&mut self, error: ApiError) -> Vec<Value> {
        vec![AnthropicError(error).body(&request_id())]
    }

    fn idle(&mut self) -> Vec<Value> {
        vec![json!({"type": "ping"})]
    }
}

fn stop_reason(end: &End) -> &'static str {
    match end.finish {
        Finish::Stop if end.stop.is_some() => "stop_sequence",
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::ToolCalls => "tool_use",
    }
}

/// Input tokens are those that no cache gave.
fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}
