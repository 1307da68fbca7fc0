use std::convert::Infallible;

use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::Stream;

/// Tells proxies to pass every event on at once.
const UNBUFFERED: [(HeaderName, &str); 2] =
    [(CACHE_CONTROL, "no-cache"), (HeaderName::from_static("x-accel-buffering"), "no")];

/// A stream of server-sent events. Dropping the response drops `events`.
pub fn stream(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    (UNBUFFERED, Sse::new(events)).into_response()
}
