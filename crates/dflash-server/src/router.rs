use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::get;

use crate::{App, anthropic, openai};

/// All routes of a server.
pub fn router(app: App) -> Router {
    let limit = DefaultBodyLimit::max(app.settings.max_body_bytes);
    Router::new()
        .route("/health", get(|| async { (StatusCode::OK, axum::Json(serde_json::json!({"status": "ok"}))) }))
        .merge(openai::routes())
        .merge(anthropic::routes())
        .layer(limit)
        .with_state(app)
}
