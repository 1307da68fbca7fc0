use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::namespace::by_full_name;
use super::output::{Output, Status, fresh_id};
use crate::ApiError;
use crate::generation::{Finish, Piece, Usage};
use crate::transcript::{End, Transcript};

/// The answer of `/v1/responses`, as it grows.
#[derive(Debug)]
pub struct Response {
    id: String,
    created: u64,
    model: String,
    /// What the request said, defaults filled in.
    echo: Map<String, Value>,
    output: Output,
    /// Of the next event.
    sequence: u64,
    end: Option<Ended>,
}

#[derive(Debug)]
enum Ended {
    Answered { finish: Finish, usage: Usage, summary: Value },
    Failed { error: Value },
}

impl Response {
    /// One without output.
    pub fn new(id: String, model: String, echo: Map<String, Value>) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        let output = Output::new(by_full_name(&echo));
        Self { id, created, model, echo, output, sequence: 0, end: None }
    }

    /// A fresh id.
    pub fn fresh_id() -> String {
        fresh_id("resp")
    }

    /// The response so far.
    pub fn to_json(&self) -> Value {
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": "in_progress",
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": self.model,
            "output": self.output.to_json(),
            "output_text": self.output.message_text(),
            "usage": null,
        });
        for (field, value) in &self.echo {
            response[field] = value.clone();
        }
        match &self.end {
            None => {}
            Some(Ended::Answered { finish, usage, summary }) => {
                response["status"] = status(*finish).name().into();
                if *finish == Finish::Length {
                    response["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                response["usage"] = to_json(usage);
                response["dflash"] = summary.clone();
            }
            Some(Ended::Failed { error }) => {
                response["status"] = "failed".into();
                response["error"] = error.clone();
            }
        }
        response
    }

    fn lifecycle(&self, name: &str) -> Value {
        json!({"type": name, "response": self.to_json()})
    }

    fn numbered(&mut self, mut events: Vec<Value>) -> Vec<Value> {
        for event in &mut events {
            event["sequence_number"] = self.sequence.into();
            self.sequence += 1;
        }
        events
    }
}

impl Transcript for Response {
    fn begin(&mut self) -> Vec<Value> {
        self.numbered(vec![self.lifecycle("response.created"), self.lifecycle("response.in_progress")])
    }

    fn pieces(&mut self, pieces: Vec<Piece>) -> Vec<Value> {
        let events = pieces.into_iter().flat_map(|piece| self.output.push(piece)).collect();
        self.numbered(events)
    }

    fn end(&mut self, end: End) -> Vec<Value> {
        let status = status(end.finish);
        let mut events = self.output.close(status);
        let usage = Usage::of(&end.stats, end.reasoning);
        self.end = Some(Ended::Answered { finish: end.finish, usage, summary: end.summary });
        events.push(self.lifecycle(&format!("response.{}", status.name())));
        self.numbered(events)
    }

    fn fail(&mut self, error: ApiError) -> Vec<Value> {
        let mut events = self.output.close(Status::Incomplete);
        let code = error.code.unwrap_or("server_error");
        self.end = Some(Ended::Failed { error: json!({"code": code, "message": error.message}) });
        events.push(self.lifecycle("response.failed"));
        self.numbered(events)
    }

    fn idle(&mut self) -> Vec<Value> {
        self.numbered(vec![self.lifecycle("response.in_progress")])
    }
}

/// An answer that was cut has a cut last item.
fn status(finish: Finish) -> Status {
    match finish {
        Finish::Length => Status::Incomplete,
        Finish::Stop | Finish::ToolCalls => Status::Completed,
    }
}

fn to_json(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "drafted_tokens": usage.drafted,
            "accepted_tokens": usage.accepted,
        },
        "total_tokens": usage.total(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: Vec<Piece>, finish: Finish) -> (Vec<Value>, Value) {
        let mut response = Response::new("resp_1".into(), "tiny".into(), Map::new());
        let mut events = response.begin();
        for piece in pieces {
            events.extend(response.idle());
            events.extend(response.pieces(vec![piece]));
        }
        let stats =
            Box::new(dflash_engine::Stats { prompt_tokens: 5, completion_tokens: 7, ..Default::default() });
        events.extend(response.end(End { finish, stop: None, stats, reasoning: 2, summary: json!({}) }));
        (events, response.to_json())
    }

    fn pieces() -> Vec<Piece> {
        vec![
            Piece::Reasoning("Let me ".into()),
            Piece::Reasoning("see.".into()),
            Piece::Content("I look ".into()),
            Piece::Content("it up.".into()),
            Piece::CallStart { index: 0, name: "weather".into() },
            Piece::CallArguments { index: 0, json: "{\"city\": ".into() },
            Piece::CallArguments { index: 0, json: "\"Prague\"}".into() },
            Piece::CallEnd { index: 0 },
        ]
    }

    /// What a client makes of the events.
    fn replayed(events: &[Value]) -> Vec<Value> {
        let mut items: Vec<Value> = Vec::new();
        for event in events {
            let index = event["output_index"].as_u64().unwrap_or(0) as usize;
            if let Some(item) = items.get(index) {
                assert!(event["item_id"].is_null() || event["item_id"] == item["id"], "{event}");
            }
            match event["type"].as_str().unwrap() {
                "response.output_item.added" => {
                    assert_eq!(index, items.len());
                    items.push(event["item"].clone());
                }
                "response.content_part.added" => {
                    items[index]["content"].as_array_mut().unwrap().push(event["part"].clone());
                }
                "response.output_text.delta" | "response.reasoning_text.delta" => {
                    let text = &mut items[index]["content"]
                        [event["content_index"].as_u64().unwrap() as usize]["text"];
                    *text = format!("{}{}", text.as_str().unwrap(), event["delta"].as_str().unwrap()).into();
                }
                "response.function_call_arguments.delta" => {
                    let text = &mut items[index]["arguments"];
                    *text = format!("{}{}", text.as_str().unwrap(), event["delta"].as_str().unwrap()).into();
                }
                "response.output_text.done" | "response.reasoning_text.done" => {
                    assert_eq!(event["text"], items[index]["content"][0]["text"]);
                }
                "response.function_call_arguments.done" => {
                    assert_eq!(event["arguments"], items[index]["arguments"])
                }
                "response.content_part.done" => assert_eq!(event["part"], items[index]["content"][0]),
                "response.output_item.done" => {
                    items[index]["status"] = event["item"]["status"].clone();
                    assert_eq!(items[index], event["item"]);
                }
                other => assert!(other.starts_with("response.") && event["response"].is_object(), "{other}"),
            }
        }
        items
    }

    #[test]
    fn events_add_up_to_the_response() {
        let (events, response) = told(pieces(), Finish::ToolCalls);
        assert_eq!(Value::from(replayed(&events)), response["output"]);
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["response"]), (&json!("response.completed"), &response));
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        assert_eq!(events[0]["response"]["status"], "in_progress");
        assert_eq!(
            (&response["output_text"], &response["status"]),
            (&json!("I look it up."), &json!("completed"))
        );
        assert_eq!(response["usage"]["total_tokens"], 12);
    }

    #[test]
    fn a_cut_answer_is_incomplete() {
        let (events, response) = told(pieces().into_iter().take(6).collect(), Finish::Length);
        assert_eq!(Value::from(replayed(&events)), response["output"]);
        assert_eq!(response["output"][2]["status"], "incomplete");
        assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
        assert_eq!(events.last().unwrap()["type"], "response.incomplete");
    }

    #[test]
    fn a_failure_ends_the_stream_and_the_open_item() {
        let mut response = Response::new("resp_1".into(), "tiny".into(), Map::new());
        response.begin();
        response.pieces(vec![Piece::Content("Hm".into())]);
        let events = response.fail(ApiError::new(crate::Kind::Internal, "broken"));
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        assert_eq!(last["response"]["error"]["message"], "broken");
        assert_eq!(last["response"]["output"][0]["status"], "incomplete");
    }
}
