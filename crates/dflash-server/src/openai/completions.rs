//! `POST /v1/completions`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::completion_chunks::CompletionChunks;
use super::envelope::Envelope;
use super::error::OpenAiError;
use super::finish::finish_reason;
use super::usage::usage;
use super::{completion_request, logprobs, stream};
use crate::body::{Fields, JsonBody};
use crate::generation::{Answer, Generation, Paced, Running, Summary, Usage, collect_in_time, start};
use crate::metrics::RequestFacts;
use crate::{ApiError, App, blocking};

/// The route.
pub async fn create(State(app): State<App>, body: JsonBody) -> Result<Response, OpenAiError> {
    let object = body.object()?;
    let reader = app.clone();
    let read = move || completion_request::read(&reader, &Fields::of(&object));
    let (generations, delivery) = blocking(read).await?;
    let envelope = Envelope::new(&app, "cmpl");
    let mut running = Vec::with_capacity(generations.len());
    for generation in &generations {
        running.push(begin(&app, &envelope, delivery.stream, generation).await?);
    }
    if delivery.stream {
        let paced = running.into_iter().map(|running| Paced::new(&app, running)).collect();
        let chunks = CompletionChunks::new(&app, envelope, &generations, delivery);
        return Ok(stream::respond(paced, generations[0].answers as usize, chunks));
    }
    let answers = generations[0].answers;
    let all = running.into_iter().map(|running| collect_in_time(&app, running, answers));
    let answers = try_join_all(all).await?;
    Ok(Json(completion(&app, &envelope, &generations[0], &answers)).into_response())
}

async fn begin(
    app: &App,
    envelope: &Envelope,
    stream: bool,
    generation: &Generation,
) -> Result<Running, ApiError> {
    let facts = RequestFacts {
        id: envelope.id.clone(),
        api: "completions",
        stream,
        prompt_tokens: generation.prompt.len(),
        max_tokens: generation.max_tokens,
    };
    start(app, generation, &facts).await
}

/// Choices of one prompt after those of another.
fn completion(app: &App, envelope: &Envelope, generation: &Generation, prompts: &[Vec<Answer>]) -> Value {
    let choices = prompts.iter().flatten().enumerate();
    let choices = choices.map(|(index, answer)| choice(app, generation, index, answer)).collect();
    let mut object = envelope.object("text_completion", choices);
    let total = prompts.iter().fold(Usage::default(), |total, answers| {
        let mut sum = Usage::default();
        answers.iter().for_each(|answer| sum += Usage::of(&answer.stats, answer.reasoning_tokens));
        total.with_prompt(sum)
    });
    object["usage"] = usage(&total);
    object["dflash"] = Summary::of(prompts.iter().flatten()).to_json(generation.seed());
    object
}

fn choice(app: &App, generation: &Generation, index: usize, answer: &Answer) -> Value {
    let told = || logprobs::of_completion(&app.model.tokenizer, &answer.logprobs, &mut 0);
    json!({
        "index": index,
        "text": answer.content,
        "logprobs": generation.logprobs.map(|_| told()),
        "finish_reason": finish_reason(answer.finish),
    })
}
