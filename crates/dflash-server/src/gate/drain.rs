use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;

use super::is_open;
use crate::family::Family;
use crate::life::Phase;
use crate::{ApiError, App, Kind};

/// Refuses new requests once the server ends; what it says about itself can still be read.
pub async fn refuse_while_draining(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if app.life.phase() == Phase::Serving || is_open(path) || path.starts_with("/metrics") {
        return next.run(request).await;
    }
    let error = ApiError::new(Kind::Unavailable, "the server ends and takes no new requests");
    let mut response = Family::of(path).respond(error.code("shutting_down"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
