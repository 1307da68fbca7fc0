use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::{ApiError, Kind};

/// An error in the shape of the Anthropic API: `{"type": "error", "error": {"type", "message"}, "request_id"}`.
pub struct AnthropicError(pub ApiError);

impl<E: Into<ApiError>> From<E> for AnthropicError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl AnthropicError {
    /// The body, which an `error` event of a stream has too.
    pub fn body(&self, request_id: &str) -> Value {
        let Self(error) = self;
        json!({
            "type": "error",
            "error": {"type": type_of(error.kind), "message": message(error)},
            "request_id": request_id,
        })
    }
}

/// The shape has no place of its own for the field.
fn message(error: &ApiError) -> String {
    match &error.param {
        Some(param) if !error.message.starts_with(param.as_str()) => format!("{param}: {}", error.message),
        _ => error.message.clone(),
    }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid | Kind::Method | Kind::MediaType => "invalid_request_error",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::NotFound => "not_found_error",
        Kind::TooLarge => "request_too_large",
        Kind::Busy => "rate_limit_error",
        Kind::Unavailable => "overloaded_error",
        Kind::Timeout | Kind::Slow => "timeout_error",
        Kind::Internal => "api_error",
    }
}

impl IntoResponse for AnthropicError {
    fn into_response(self) -> Response {
        let id = request_id();
        let mut response = (self.0.status(), Json(self.body(&id))).into_response();
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("request-id", id);
        }
        response
    }
}

/// A fresh id.
pub fn request_id() -> String {
    format!("req_{}", uuid::Uuid::new_v4().simple())
}
