//! `POST /v1/chat/completions`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::chat_chunks::ChatChunks;
use super::common::Delivery;
use super::envelope::{Envelope, call_id};
use super::error::OpenAiError;
use super::finish::finish_reason;
use super::usage::usage;
use super::{chat_request, logprobs, stream};
use crate::body::{Fields, JsonBody};
use crate::generation::{Answer, Generation, Paced, Summary, Usage, collect_in_time, start};
use crate::metrics::RequestFacts;
use crate::{ApiError, App, blocking};

/// The route.
pub async fn create(State(app): State<App>, body: JsonBody) -> Result<Response, OpenAiError> {
    let object = body.object()?;
    let reader = app.clone();
    let read = move || request(&reader, &object);
    let (generation, delivery) = blocking(read).await?;
    let envelope = Envelope::new(&app, "chatcmpl");
    let facts = RequestFacts {
        id: envelope.id.clone(),
        api: "chat.completions",
        stream: delivery.stream,
        prompt_tokens: generation.prompt.len(),
        max_tokens: generation.max_tokens,
    };
    let running = start(&app, &generation, &facts).await?;
    if delivery.stream {
        let chunks = ChatChunks::new(&app, envelope, &generation, delivery);
        let paced = Paced::new(&app, running);
        return Ok(stream::respond(vec![paced], generation.answers as usize, chunks));
    }
    let answers = collect_in_time(&app, running, generation.answers).await?;
    Ok(Json(completion(&app, &envelope, &generation, &answers)).into_response())
}

fn request(app: &App, object: &Map<String, Value>) -> Result<(Generation, Delivery), ApiError> {
    let (options, delivery) = chat_request::read(app, &Fields::of(object))?;
    Ok((options.generation(app)?, delivery))
}

fn completion(app: &App, envelope: &Envelope, generation: &Generation, answers: &[Answer]) -> Value {
    let choice = |(index, answer)| choice(app, generation, index, answer);
    let mut object = envelope.object("chat.completion", answers.iter().enumerate().map(choice).collect());
    let mut sum = Usage::default();
    answers.iter().for_each(|answer| sum += Usage::of(&answer.stats, answer.reasoning_tokens));
    object["usage"] = usage(&sum);
    object["dflash"] = Summary::of(answers).to_json(generation.seed());
    object
}

fn choice(app: &App, generation: &Generation, index: usize, answer: &Answer) -> Value {
    let told = generation.logprobs.map(|_| {
        let content = logprobs::of_chat(&app.model.tokenizer, &answer.logprobs);
        json!({"content": content, "refusal": null})
    });
    json!({
        "index": index,
        "message": message(answer),
        "logprobs": told,
        "finish_reason": finish_reason(answer.finish),
    })
}

fn message(answer: &Answer) -> Value {
    let says_nothing = answer.content.is_empty() && !answer.calls.is_empty();
    let content = (!says_nothing).then_some(&answer.content);
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = json!(answer.reasoning);
    }
    if !answer.calls.is_empty() {
        message["tool_calls"] = answer
            .calls
            .iter()
            .map(|call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call_id(), "type": "function", "function": function})
            })
            .collect();
    }
    message
}
