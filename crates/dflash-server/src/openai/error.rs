use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::{ApiError, Kind};

/// An error in the shape of the OpenAI API: `{"error": {"message", "type", "param", "code"}}`.
pub struct OpenAiError(pub ApiError);

impl<E: Into<ApiError>> From<E> for OpenAiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl OpenAiError {
    /// The body.
    pub fn body(&self) -> serde_json::Value {
        let Self(error) = self;
        json!({"error": {"message": error.message, "type": type_of(error.kind), "param": error.param, "code": error.code}})
    }
}

fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::Busy => "rate_limit_error",
        Kind::Internal | Kind::Unavailable | Kind::Timeout => "server_error",
        _ => "invalid_request_error",
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        (self.0.status(), Json(self.body())).into_response()
    }
}
