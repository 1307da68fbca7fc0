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
use axum::http::HeaderValue;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::post;

use crate::App;

/// Its routes.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/messages", post(messages::create))
        .route("/v1/messages/count_tokens", post(count_tokens::create))
        .layer(map_response(identify))
}

/// Every answer has an id in its headers; that of an error is in the body too.
async fn identify(mut response: Response) -> Response {
    if let Ok(id) = HeaderValue::from_str(&error::request_id()) {
        response.headers_mut().entry("request-id").or_insert(id);
    }
    response
}
