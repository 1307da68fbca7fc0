use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::family::Family;
use crate::metrics::Metrics;
use crate::{ApiError, Kind};

/// A panic costs one request.
pub async fn catch(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let family = Family::of(request.uri().path());
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            metrics.panicked();
            family.respond(ApiError::new(Kind::Internal, "the request failed by a fault of the server"))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_costs_one_request() {
        let fails = get(|| async { panic!("for the test") as &'static str });
        let routes = Router::new().route("/v1/messages", fails).route("/", get(|| async { "fine" }));
        let routes = routes.layer(from_fn_with_state(Metrics::default(), catch));
        let send = |path: &str| routes.clone().oneshot(Request::get(path).body(Body::empty()).unwrap());
        assert_eq!(send("/v1/messages").await.unwrap().status(), 500);
        assert_eq!(send("/").await.unwrap().status(), 200);
    }
}
