//! The page at `/`: a chat and a race of plain against speculative decoding, all in one file.

use axum::Router;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use uuid::Uuid;

use crate::App;

const PAGE: &str = include_str!("index.html");

/// `/`.
pub fn routes() -> Router<App> {
    Router::new().route("/", get(page))
}

/// Only what is in the page itself runs, and it talks to this server alone.
async fn page() -> Response {
    let nonce = Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(PAGE.replace("\"NONCE\"", &format!("\"{nonce}\"")))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_in_the_page_may_run() {
        let response = page().await;
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = std::str::from_utf8(&body).unwrap();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        let again = page().await.headers()[header::CONTENT_SECURITY_POLICY].clone();
        assert_ne!(again.to_str().unwrap(), policy);
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_markup() {
        for outside in ["http:", "https:", "//cdn", "url(", "@import", "src="] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!PAGE.contains(unsafe_way), "{unsafe_way}");
        }
        assert_eq!(PAGE.matches("nonce=\"NONCE\"").count(), 2);
    }
}
