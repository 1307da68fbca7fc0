use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HOST, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::family::Family;
use crate::{ApiError, App, Kind, ServerSettings};

const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Says which pages may call, and answers what browsers ask beforehand. Where origins are limited, others are refused,
/// and so are hosts that are not this one: a page could have its own name lead here.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let family = Family::of(request.uri().path());
    let headers = request.headers().clone();
    let allowed = match allowed(&app.settings, &headers) {
        Ok(allowed) => allowed,
        Err(error) => return family.respond(error),
    };
    let mut response = match *request.method() {
        Method::OPTIONS => preflight(&headers),
        _ => next.run(request).await,
    };
    if let Some(origin) = allowed {
        let to = response.headers_mut();
        to.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        to.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        to.append(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// The answer to `OPTIONS`, on every path. Wildcards do not cover `Authorization`, so headers are named back.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let to = response.headers_mut();
    let wanted = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    to.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    to.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.unwrap_or(HeaderValue::from_static("*")));
    to.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if headers.contains_key(REQUEST_PRIVATE_NETWORK) {
        to.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}

/// The origin to allow; `None` for one who has none, which is no page.
fn allowed(settings: &ServerSettings, headers: &HeaderMap) -> Result<Option<HeaderValue>, ApiError> {
    if settings.allowed_origins.iter().any(|origin| origin == "*") {
        return Ok(Some(HeaderValue::from_static("*")));
    }
    check_host(settings, headers)?;
    let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let known = settings.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text));
    match known || is_own(text, headers) {
        true => Ok(Some(origin.clone())),
        false => Err(ApiError::new(
            Kind::Forbidden,
            format!("the origin {text:?} may not call this server: --allowed-origins names those that may"),
        )
        .code("origin_not_allowed")),
    }
}

/// The page that the server itself gave.
fn is_own(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let from = origin.split_once("://").map(|(_, rest)| rest);
    matches!((host, from), (Some(host), Some(from)) if host.eq_ignore_ascii_case(from))
}

fn check_host(settings: &ServerSettings, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default()).unwrap_or_default();
    let name = without_port(host);
    let known = settings.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    if host.is_empty() || known || !settings.address.ip().is_loopback() || is_this_machine(name) {
        return Ok(());
    }
    let message =
        format!("the host {name:?} is not this server: --allowed-hosts names others that lead here");
    Err(ApiError::new(Kind::Forbidden, message).code("host_not_allowed"))
}

fn is_this_machine(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(origins: &[&str], pairs: &[(HeaderName, &'static str)]) -> Result<Option<String>, &'static str> {
        let settings = ServerSettings {
            allowed_origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
            allowed_hosts: vec!["llm.lan".to_owned()],
            ..ServerSettings::default()
        };
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        match allowed(&settings, &pairs.collect()) {
            Ok(origin) => Ok(origin.map(|origin| origin.to_str().unwrap().to_owned())),
            Err(error) => Err(error.code.unwrap()),
        }
    }

    #[test]
    fn everybody_or_those_that_are_named() {
        let page = [(ORIGIN, "https://a.example"), (HOST, "localhost:8000")];
        assert_eq!(asked(&["*"], &page), Ok(Some("*".into())));
        assert_eq!(asked(&["https://A.example"], &page), Ok(Some("https://a.example".into())));
        assert_eq!(asked(&["https://b.example"], &page), Err("origin_not_allowed"));
        assert_eq!(asked(&["https://b.example"], &page[1..]), Ok(None));
        let own = [(ORIGIN, "http://localhost:8000"), (HOST, "localhost:8000")];
        assert_eq!(asked(&[], &own), Ok(Some("http://localhost:8000".into())));
    }

    #[test]
    fn hosts_that_lead_here() {
        for host in [
            "localhost",
            "localhost:8000",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:8000",
            "llm.lan",
            "x.localhost",
        ] {
            assert_eq!(asked(&["https://b.example"], &[(HOST, host)]), Ok(None), "{host}");
        }
        for host in ["evil.example", "evil.example:8000", "10.0.0.1", "localhost.evil.example", "[::2]"] {
            assert_eq!(asked(&["https://b.example"], &[(HOST, host)]), Err("host_not_allowed"), "{host}");
            assert!(asked(&["*"], &[(HOST, host)]).is_ok());
        }
    }
}
