use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::output::{Output, Status, fresh_id};
use crate::ApiError;
use crate::generation::{Finish, Piece, Usage};
use crate::openai::error::OpenAiError;
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
    Answered { finish: Finish, usage: Usage, extension: Value },
    Failed { error: Value },
}

impl Response {
    /// One without output.
    pub fn new(id: String, model: String, echo: Map<String, Value>) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        Self { id, created, model, echo, output: Output::default(), sequence: 0, end: None }
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
            Some(Ended::Answered { finish, usage, extension }) => {
                response["status"] = status(*finish).name().into();
                if *finish == Finish::Length {
                    response["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                response["usage"] = to_json(usage);
                response["dflash"] = extension.clone();
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

    fn end(&mut self, end: &End) -> Vec<Value> {
        let status = status(end.finish);
        let mut events = self.output.close(status);
        let usage = Usage::of(&end.stats, end.reasoning);
        self.end = Some(Ended::Answered { finish: end.finish, usage, extension: Value::Null });
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
