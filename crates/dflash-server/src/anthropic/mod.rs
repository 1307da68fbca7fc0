//! The routes of the Anthropic API: `/v1/messages` and `/v1/messages/count_tokens`.

mod content;
mod conversation;
mod error;
mod message;

use axum::Router;

use crate::App;

/// Its routes.
pub fn routes() -> Router<App> {
    Router::new()
}
