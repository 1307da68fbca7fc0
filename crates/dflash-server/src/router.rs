use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;

use crate::family::Family;
use crate::{ApiError, App, Kind, anthropic, gate, health, metrics, openai, openapi, page};

/// All routes of a server.
pub fn router(app: App) -> Router {
    let routes = Router::new()
        .merge(health::routes())
        .merge(openai::routes())
        .merge(anthropic::routes())
        .merge(metrics::routes())
        .merge(page::routes())
        .merge(openapi::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(other_method);
    gate::guarded(routes, &app)
        .layer(from_fn_with_state(app.clone(), metrics::count_refusals))
        .with_state(app)
}

async fn no_route(uri: Uri) -> Response {
    let message = format!("there is no route {}: GET /openapi.json lists them", uri.path());
    Family::of(uri.path()).respond(ApiError::new(Kind::NotFound, message).code("unknown_route"))
}

async fn other_method(uri: Uri, method: Method) -> Response {
    let message = format!("the route {} does not take {method}", uri.path());
    Family::of(uri.path()).respond(ApiError::new(Kind::Method, message).code("method_not_allowed"))
}
