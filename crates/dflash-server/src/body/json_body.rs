use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ORIGIN};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::parse;
use crate::{ApiError, App, Kind};

/// The body of a request. Extracting it cannot fail, so that the route says what is wrong in its family's shape.
pub struct JsonBody(Result<Map<String, Value>, ApiError>);

impl JsonBody {
    /// The JSON object that was sent.
    ///
    /// # Errors
    /// 408 for one that does not come, 413 for one that is too large, 415 for one that is said to be no JSON, 400 for what [`parse`] refuses.
    pub fn object(self) -> Result<Map<String, Value>, ApiError> {
        self.0
    }
}

impl FromRequest<App> for JsonBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        Ok(Self(read(request, app.settings.max_body_bytes, app.settings.body_time).await))
    }
}

async fn read(request: Request, limit: usize, time: Duration) -> Result<Map<String, Value>, ApiError> {
    check_type(request.headers())?;
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes: --max-body raises the limit");
        ApiError::new(Kind::TooLarge, message)
    };
    if announced(request.headers()).is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large());
    }
    let body = timeout(time, to_bytes(request.into_body(), limit)).await.map_err(|_| {
        let message = format!("the body did not come within {} seconds", time.as_secs());
        ApiError::new(Kind::Slow, message)
    })?;
    let bytes =
        body.map_err(|error| match error.source().is_some_and(|source| source.is::<LengthLimitError>()) {
            true => too_large(),
            false => ApiError::new(Kind::Invalid, format!("the body could not be read: {error}")),
        })?;
    parse(&bytes)
}

/// No type at all is fine: many a script forgets it, and `curl -d` then says that it is a form. What a page in a browser
/// calls a form is one, and files are another matter.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let lower = essence.to_ascii_lowercase();
    let forgotten = lower == "application/x-www-form-urlencoded" && !headers.contains_key(ORIGIN);
    match lower.is_empty() || lower == "application/json" || lower.ends_with("+json") || forgotten {
        true => Ok(()),
        false => Err(ApiError::new(
            Kind::MediaType,
            format!("the content type is {essence}: send application/json"),
        )),
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
