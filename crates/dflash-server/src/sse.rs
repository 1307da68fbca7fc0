use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::Stream;
use std::convert::Infallible;

use crate::ServerSettings;

/// A stream of server-sent events that tells now and then that it lives.
pub fn stream(
    settings: &ServerSettings,
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(settings.keep_alive)).into_response()
}
