//! The routes of the OpenAI API.

mod chat;
mod chat_chunks;
mod chat_request;
mod common;
mod completion_chunks;
mod completion_request;
mod completions;
mod envelope;
mod error;
mod finish;
mod logprobs;
mod models;
mod responses;
mod stream;
mod usage;

pub use error::OpenAiError;

use axum::Router;
use axum::routing::{get, post};

use crate::App;

/// Its routes.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/completions", post(completions::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
}
