use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tracing::debug;

use super::exposition::{CONTENT_TYPE, exposition};
use super::report::report;
use super::snapshot::Snapshot;
use crate::App;

/// `/metrics` and `/metrics.json`.
pub fn routes() -> Router<App> {
    Router::new().route("/metrics", get(metrics)).route("/metrics.json", get(as_json))
}

/// Text for Prometheus, unless JSON is asked for.
async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("application/json") {
        return as_json(State(app)).await;
    }
    // A browser would save what it does not know.
    let kind = if accept.contains("text/html") { "text/plain; charset=utf-8" } else { CONTENT_TYPE };
    ([(header::CONTENT_TYPE, kind)], exposition(Snapshot::of(&app))).into_response()
}

async fn as_json(State(app): State<App>) -> Response {
    axum::Json(report(&Snapshot::of(&app))).into_response()
}

/// Counts what is refused; the outermost layer, so that it sees every answer.
pub async fn count_refusals(State(app): State<App>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    if let Some(reason) = reason(response.status()) {
        app.metrics.refused(reason);
        debug!(%method, path, status = response.status().as_u16(), reason, "refused");
    }
    response
}

fn reason(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        ..400 => None,
        401 => Some("unauthorized"),
        403 => Some("forbidden"),
        404 => Some("not_found"),
        405 => Some("method"),
        408 => Some("slow_request"),
        413 => Some("too_large"),
        415 => Some("media_type"),
        429 => Some("queue_full"),
        400..500 => Some("invalid"),
        503 => Some("unavailable"),
        504 => Some("timeout"),
        _ => Some("internal"),
    }
}
