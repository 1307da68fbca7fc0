//! `POST /v1/messages`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::error::AnthropicError;
use super::message::Message;
use super::request::options;
use crate::App;
use crate::blocking;
use crate::body::{Fields, JsonBody};
use crate::generation::start;
use crate::metrics::RequestFacts;
use crate::transcript::Telling;

/// The route.
pub async fn create(State(app): State<App>, body: JsonBody) -> Result<Response, AnthropicError> {
    let body = body.object()?;
    let fields = Fields::of(&body);
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let options = options(&app, &fields)?;
    let generation = {
        let app = app.clone();
        blocking(move || options.generation(&app)).await?
    };
    let id = format!("msg_{}", uuid::Uuid::new_v4().simple());
    let facts = RequestFacts {
        id: id.clone(),
        api: "messages",
        stream,
        prompt_tokens: generation.prompt.len(),
        max_tokens: generation.max_tokens,
    };
    let message = Message::new(id, app.model.id.clone(), generation.prompt.len());
    let running = start(&app, &generation, &facts).await?;
    let telling = Telling::new(&app, running, &generation, message);
    match stream {
        true => Ok(telling.stream()),
        false => Ok(Json(telling.complete().await?.to_json()).into_response()),
    }
}
