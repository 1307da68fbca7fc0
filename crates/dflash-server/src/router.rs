use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::{App, anthropic, metrics, openai, page};

/// All routes of a server.
pub fn router(app: App) -> Router {
    let limit = DefaultBodyLimit::max(app.settings.max_body_bytes);
    Router::new()
        .route("/health", get(|| async { (StatusCode::OK, axum::Json(serde_json::json!({"status": "ok"}))) }))
        .merge(openai::routes())
        .merge(anthropic::routes())
        .merge(metrics::routes())
        .merge(page::routes())
        .layer(limit)
        .layer(from_fn_with_state(app.clone(), metrics::count_refusals))
        .with_state(app)
}
