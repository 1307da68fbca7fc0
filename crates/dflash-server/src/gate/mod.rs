//! What every request passes before it reaches its route, from the outside in: panics are caught, browsers checked, keys
//! compared, and nothing new begins once the server ends.

mod browsers;
mod drain;
mod keys;
mod panics;
mod retry;

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::App;

/// Routes behind the gate.
pub fn guarded(routes: Router<App>, app: &App) -> Router<App> {
    routes
        .layer(from_fn_with_state(app.clone(), drain::refuse_while_draining))
        .layer(from_fn_with_state(app.clone(), keys::require_key))
        .layer(from_fn_with_state(app.clone(), retry::tell_when_to_retry))
        .layer(from_fn_with_state(app.metrics.clone(), panics::catch))
        .layer(from_fn_with_state(app.clone(), browsers::check))
}

/// Paths that probes and browsers open without a key.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/health" | "/ready")
}
