//! `POST /v1/chat/completions`

use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use dflash_engine::{Decoding, SamplingParams};
use dflash_text::ChatRequest;
use futures_util::stream;
use serde_json::{Value, json};

use super::error::OpenAiError;
use crate::generation::{
    AnswerFormat, Finish, Generation, Piece, Running, Step, Update, Usage, collect, start,
};
use crate::metrics::RequestFacts;
use crate::{ApiError, App, Kind, sse};

/// The route.
pub async fn create(State(app): State<App>, Json(body): Json<Value>) -> Result<Response, OpenAiError> {
    let generation = generation(&app, &body)?;
    let id = format!("chatcmpl-{}", uuid::Uuid::new_v4().simple());
    let facts = RequestFacts {
        id: id.clone(),
        api: "chat.completions",
        stream: body["stream"] == true,
        prompt_tokens: generation.prompt.len(),
        max_tokens: generation.max_tokens,
    };
    let running = start(&app, &generation, &facts)?;
    if body["stream"] == true {
        return Ok(sse::stream(&app.settings, chunks(running, id, app.model.id.clone())));
    }
    let answers = collect(running, generation.answers).await?;
    let mut usage = Usage::default();
    let choices: Vec<Value> = answers.iter().enumerate().map(|(index, answer)| {
        usage += Usage::of(&answer.stats, answer.reasoning_tokens);
        json!({"index": index, "finish_reason": finish(answer.finish), "message": {"role": "assistant", "content": answer.content}})
    }).collect();
    Ok(Json(json!({
        "id": id, "object": "chat.completion", "model": app.model.id, "choices": choices,
        "usage": {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion, "total_tokens": usage.total()},
    })).into_response())
}

fn generation(app: &App, body: &Value) -> Result<Generation, ApiError> {
    let Some(messages) = body["messages"].as_array() else {
        return Err(ApiError::invalid("messages", "messages is missing: give a list of messages"));
    };
    let prompt = app.model.format.prompt(&ChatRequest::new(messages.clone()))?;
    let sampling = SamplingParams::new(app.settings.sampling.clone());
    Ok(Generation {
        prompt: prompt.ids,
        max_tokens: body["max_tokens"].as_u64().map_or(app.settings.max_tokens, |n| n as usize),
        sampling: sampling.map_err(|error| ApiError::new(Kind::Invalid, error.to_string()))?,
        answers: 1,
        logprobs: None,
        decoding: Decoding::Speculative,
        format: AnswerFormat::default(),
        constraint: None,
        thinking_budget: None,
    })
}

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
    }
}

fn chunks(
    running: Running,
    id: String,
    model: String,
) -> impl stream::Stream<Item = Result<Event, Infallible>> {
    stream::unfold(Some(running), move |running| {
        let (id, model) = (id.clone(), model.clone());
        async move {
            let mut running = running?;
            loop {
                let chunk = |delta: Value, finish: Option<&str>| {
                    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
                    json!({"id": id, "object": "chat.completion.chunk", "model": model, "choices": [choice]})
                };
                let text = |pieces: Vec<Piece>| -> String {
                    pieces
                        .into_iter()
                        .map(|piece| if let Piece::Content(text) = piece { text } else { String::new() })
                        .collect()
                };
                let (value, rest) = match running.next().await {
                    Ok(Some(Update { step: Step::Tokens { pieces, .. }, .. })) => {
                        (chunk(json!({"content": text(pieces)}), None), Some(running))
                    }
                    Ok(Some(Update { step: Step::Finished { pieces, finish: why, .. }, .. })) => {
                        (chunk(json!({"content": text(pieces)}), Some(finish(why))), Some(running))
                    }
                    Ok(Some(_)) => continue,
                    Ok(None) => return Some((Ok(Event::default().data("[DONE]")), None)),
                    Err(error) => (OpenAiError(error).body(), None),
                };
                return Some((Ok(Event::default().data(value.to_string())), rest));
            }
        }
    })
}
