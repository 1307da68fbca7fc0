//! `GET /openapi.json`: every route with what it takes and gives.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::App;

/// The description, OpenAPI 3.1.
pub const DESCRIPTION: &str = include_str!("../openapi.json");

/// Its route.
pub fn routes() -> Router<App> {
    Router::new().route("/openapi.json", get(describe))
}

async fn describe() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DESCRIPTION)
}
