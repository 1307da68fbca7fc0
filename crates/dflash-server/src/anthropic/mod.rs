//! The routes of the Anthropic API: `/v1/messages` and `/v1/messages/count_tokens`.

mod content;
mod conversation;
mod count_tokens;
mod error;
mod message;
mod messages;
mod request;
mod tools;

pub use error::AnthropicError;

use axum::Router;
use axum::routing::post;

use crate::App;

/// Its routes.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/messages", post(messages::create))
        .route("/v1/messages/count_tokens", post(count_tokens::create))
}
