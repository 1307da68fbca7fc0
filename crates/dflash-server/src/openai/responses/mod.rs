//! `POST /v1/responses`

mod input;
mod namespace;
mod output;
mod request;
mod response;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::Response as HttpResponse;

use self::request::{echo, options};
use self::response::Response;
use super::error::OpenAiError;
use crate::body::{Fields, JsonBody};
use crate::generation::start;
use crate::metrics::RequestFacts;
use crate::transcript::Telling;
use crate::{ApiError, App, blocking};

/// The route.
pub async fn create(State(app): State<App>, body: JsonBody) -> Result<HttpResponse, OpenAiError> {
    let body = body.object()?;
    let fields = Fields::of(&body);
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let options = options(&app, &fields)?;
    let echo = echo(&fields, &options);
    let generation = {
        let app = app.clone();
        blocking(move || options.generation(&app).map_err(in_own_words)).await?
    };
    let id = Response::fresh_id();
    let facts = RequestFacts {
        id: id.clone(),
        api: "responses",
        stream,
        prompt_tokens: generation.prompt.len(),
        max_tokens: generation.max_tokens,
    };
    let response = Response::new(id, app.model.id.clone(), echo);
    let running = start(&app, &generation, &facts).await?;
    let telling = Telling::new(&app, running, &generation, response);
    match stream {
        true => Ok(telling.stream()),
        false => Ok(Json(telling.complete().await?.to_json()).into_response()),
    }
}

/// Names fields as this API does, where the error comes from what all families share.
fn in_own_words(error: ApiError) -> ApiError {
    let own = match error.param.as_deref() {
        Some("messages") => "input",
        Some("response_format") => "text.format",
        _ => return error,
    };
    let message = error.message.replacen(error.param.as_deref().unwrap_or_default(), own, 1);
    ApiError { message, param: Some(own.to_owned()), ..error }
}
