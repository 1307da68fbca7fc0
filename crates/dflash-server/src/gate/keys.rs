use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::is_open;
use crate::family::Family;
use crate::{ApiError, App, Kind};

/// Demands a key where there are any.
pub async fn require_key(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let keys = &app.settings.api_keys;
    if keys.is_empty() || is_open(path) || sent(request.headers()).any(|key| is_known(key, keys)) {
        return next.run(request).await;
    }
    let what = if sent(request.headers()).next().is_some() { "unknown" } else { "missing" };
    let message =
        format!("the API key is {what}: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`");
    let error = ApiError::new(Kind::Unauthorized, message).code("invalid_api_key");
    let mut response = Family::of(path).respond(error);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Every key that a request brings; clients of both families may set both.
fn sent(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get(AUTHORIZATION).and_then(text).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.into_iter().chain(headers.get("x-api-key").and_then(text))
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// Takes the same time whatever key is sent: hashes have one length, and all of them are compared.
fn is_known(key: &str, keys: &[String]) -> bool {
    let hash = |key: &str| Sha256::digest(key.as_bytes());
    let sent = hash(key);
    let equal = |known: &String| sent.as_slice().ct_eq(hash(known).as_slice());
    keys.iter().map(equal).fold(Choice::from(0), |any, equal| any | equal).into()
}
