use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::App;

/// Tells clients of a full queue when to come again: a second for every round of requests that wait.
pub async fn tell_when_to_retry(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        let rounds = app.model.engine.load().waiting / app.model.engine.options().max_batch;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(rounds.max(1)));
    }
    response
}
