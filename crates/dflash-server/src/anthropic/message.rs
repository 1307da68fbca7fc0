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
    summary: Value,
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
            message["dflash"] = end.summary.clone();
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

    fn end(&mut self, end: End) -> Vec<Value> {
        let mut events = self.content.close();
        let end = self.end.insert(Ended {
            stop_reason: stop_reason(&end),
            usage: Usage::of(&end.stats, end.reasoning),
            stop_sequence: end.stop,
            summary: end.summary,
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
            "dflash": end.summary,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Vec<Piece> {
        vec![
            Piece::Reasoning("Let me ".into()),
            Piece::Reasoning("see.".into()),
            Piece::Content(String::new()),
            Piece::Content("I look ".into()),
            Piece::Content("it up.".into()),
            Piece::CallStart { index: 0, name: "weather".into() },
            Piece::CallArguments { index: 0, json: "{\"city\": ".into() },
            Piece::CallArguments { index: 0, json: "\"Prague\"}".into() },
            Piece::CallEnd { index: 0 },
            Piece::CallStart { index: 1, name: "now".into() },
            Piece::CallArguments { index: 1, json: "{}".into() },
            Piece::CallEnd { index: 1 },
            Piece::Content("Done.".into()),
        ]
    }

    fn end(finish: Finish, stop: Option<&str>) -> End {
        let stats =
            Box::new(dflash_engine::Stats { prompt_tokens: 5, completion_tokens: 7, ..Default::default() });
        End { finish, stop: stop.map(str::to_owned), stats, reasoning: 2, summary: json!({"cycles": 3}) }
    }

    fn told(pieces: Vec<Piece>, end: End) -> (Vec<Value>, Value) {
        let mut message = Message::new("msg_1".into(), "tiny".into(), 5);
        let mut events = message.begin();
        for piece in pieces {
            events.extend(message.idle());
            events.extend(message.pieces(vec![piece]));
        }
        events.extend(message.end(end));
        (events, message.to_json())
    }

    /// What a client makes of the events.
    fn replayed(events: &[Value]) -> Value {
        let mut message = events[0]["message"].clone();
        let mut arguments = String::new();
        for event in &events[1..] {
            let index = event["index"].as_u64().unwrap_or(0) as usize;
            let kind = event["type"].as_str().unwrap();
            match kind {
                "content_block_start" => {
                    assert_eq!(index, message["content"].as_array().unwrap().len());
                    message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                    arguments.clear();
                }
                "content_block_delta" => {
                    let (block, delta) = (&mut message["content"][index], &event["delta"]);
                    for field in ["text", "thinking", "signature"] {
                        if let Some(more) = delta[field].as_str() {
                            block[field] = format!("{}{more}", block[field].as_str().unwrap()).into();
                        }
                    }
                    arguments += delta["partial_json"].as_str().unwrap_or("");
                }
                "content_block_stop" if message["content"][index]["type"] == "tool_use" => {
                    message["content"][index]["input"] = serde_json::from_str(&arguments).unwrap();
                }
                "message_delta" => {
                    for (field, value) in event["delta"].as_object().unwrap() {
                        message[field] = value.clone();
                    }
                    message["usage"] = event["usage"].clone();
                    message["dflash"] = event["dflash"].clone();
                }
                "content_block_stop" | "message_stop" | "ping" => {}
                other => panic!("{other}"),
            }
        }
        message
    }

    #[test]
    fn events_add_up_to_the_message() {
        let (events, message) = told(pieces(), end(Finish::ToolCalls, None));
        assert_eq!(replayed(&events), message);
        let kinds: Vec<&str> =
            message["content"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use", "text"]);
        assert_eq!(message["content"][2]["input"], json!({"city": "Prague"}));
        assert_eq!(message["stop_reason"], "tool_use");
        assert_eq!(events.last().unwrap()["type"], "message_stop");
        let opened = events.iter().filter(|e| e["type"] == "content_block_start").count();
        let closed = events.iter().filter(|e| e["type"] == "content_block_stop").count();
        assert_eq!((opened, closed), (5, 5));
    }

    #[test]
    fn an_answer_without_text_has_no_blocks() {
        let (events, message) = told(Vec::new(), end(Finish::Stop, None));
        assert_eq!((events.len(), &message["content"]), (3, &json!([])));
        assert_eq!(message["stop_reason"], "end_turn");
    }

    #[test]
    fn a_call_that_was_cut_has_no_input() {
        let cut = pieces().into_iter().take(7).collect();
        let (_, message) = told(cut, end(Finish::Length, None));
        assert_eq!(message["content"][2]["input"], json!({}));
        assert_eq!(message["stop_reason"], "max_tokens");
    }

    #[test]
    fn the_stop_sequence_is_told() {
        let (events, message) = told(Vec::new(), end(Finish::Stop, Some("END")));
        assert_eq!(
            (&message["stop_reason"], &message["stop_sequence"]),
            (&json!("stop_sequence"), &json!("END"))
        );
        assert_eq!(events[1]["delta"]["stop_sequence"], "END");
    }
}
