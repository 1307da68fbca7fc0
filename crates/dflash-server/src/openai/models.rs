use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::error::OpenAiError;
use crate::{ApiError, App, Kind};

/// `GET /v1/models`
pub async fn list(State(app): State<App>) -> Json<Value> {
    let names = std::iter::once(&app.model.id).chain(&app.model.aliases);
    let data: Vec<Value> = names.map(|name| entry(&app, name)).collect();
    Json(json!({"object": "list", "data": data}))
}

/// `GET /v1/models/{id}`
pub async fn one(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, OpenAiError> {
    match app.model.answers_to(&id) {
        true => Ok(Json(entry(&app, &id))),
        false => Err(unknown(&app, &id).into()),
    }
}

/// A model that is not served.
pub fn unknown(app: &App, id: &str) -> ApiError {
    let message = format!(
        "the model {id:?} is not served here: send {:?}, or let --served-model-name give it that name",
        app.model.id
    );
    let error = ApiError::new(Kind::NotFound, message).code("model_not_found");
    ApiError { param: Some("model".to_owned()), ..error }
}

fn entry(app: &App, id: &str) -> Value {
    json!({"id": id, "object": "model", "created": app.model.created, "owned_by": "dflash"})
}
