//! `GET /health` and `GET /ready`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::App;
use crate::life::Phase;

/// Both routes. They ask nobody who may hang.
pub fn routes() -> Router<App> {
    Router::new().route("/health", get(health)).route("/ready", get(health))
}

async fn health(State(app): State<App>) -> Response {
    let why = obstacle(&app);
    let model = &app.model;
    let drafting = json!({
        "active": model.facts.drafting_off.is_none(),
        "draft": model.facts.draft,
        "why_off": model.facts.drafting_off,
        "why_not_paired": model.facts.draft_fallback,
    });
    let load = model.engine.load();
    let body = json!({
        "status": if why.is_some() { "unavailable" } else { "ok" },
        "reason": why,
        "model": model.id,
        "drafting": drafting,
        "active": load.active,
        "waiting": load.waiting,
    });
    let status = if why.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(body)).into_response()
}

/// What keeps the server from answering.
fn obstacle(app: &App) -> Option<String> {
    if app.life.phase() > Phase::Serving {
        return Some("the server ends".to_owned());
    }
    let load = app.model.engine.load();
    match load.step {
        _ if !load.alive => Some("the engine has stopped".to_owned()),
        Some(step) if step > app.settings.longest_step => {
            Some(format!("a step has run for {} seconds", step.as_secs()))
        }
        _ => None,
    }
}
