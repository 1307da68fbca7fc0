//! `POST /v1/messages/count_tokens`

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::error::AnthropicError;
use super::request::prompt_options;
use crate::App;
use crate::blocking;
use crate::body::{Fields, JsonBody};

/// The route: ids of the prompt that the same body would have at `/v1/messages`.
pub async fn create(State(app): State<App>, body: JsonBody) -> Result<Json<Value>, AnthropicError> {
    let body = body.object()?;
    let options = prompt_options(&app, &Fields::of(&body))?;
    let prompt = blocking(move || options.prompt(&app)).await?;
    Ok(Json(json!({"input_tokens": prompt.ids.len()})))
}
