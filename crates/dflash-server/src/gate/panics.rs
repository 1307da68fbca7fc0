use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::family::Family;
use crate::{ApiError, App, Kind};

/// A panic costs one request.
pub async fn catch(State(app): State<App>, request: Request, next: Next) -> Response {
    let family = Family::of(request.uri().path());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            app.metrics.panicked();
            family.respond(ApiError::new(Kind::Internal, "the request failed by a fault of the server"))
        }
    }
}
