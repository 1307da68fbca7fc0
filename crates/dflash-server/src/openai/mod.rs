//! The routes of the OpenAI API.

mod chat;
mod error;
mod models;
mod responses;

use axum::Router;
use axum::routing::{get, post};

use crate::App;

/// Its routes.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/chat/completions", post(chat::create))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
}
