use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use dflash_engine::EngineOptions;
use dflash_server::ServerSettings;
use serde_json::json;

use crate::chat;
use crate::common::{Answer, Server, Setup};

const CHAT: &str = "/v1/chat/completions";
const JSON: (&str, &str) = ("content-type", "application/json");

async fn status(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let body = chat(json!({"max_tokens": 1})).to_string();
    server.respond(method, path, headers, body).await.status().as_u16()
}

#[tokio::test]
async fn a_key_opens_the_api_in_either_header() {
    let keys = vec!["first-key".to_owned(), "second-key".to_owned()];
    let server = Server::with(ServerSettings { api_keys: keys, ..ServerSettings::default() });
    for good in [
        ("authorization", "Bearer first-key"),
        ("authorization", "bearer  second-key"),
        ("x-api-key", "second-key"),
    ] {
        assert_eq!(status(&server, "POST", CHAT, &[JSON, good]).await, 200, "{good:?}");
    }
    for bad in [
        ("authorization", "Bearer first-keyx"),
        ("authorization", "Bearer first-ke"),
        ("authorization", "Bearer"),
        ("authorization", "Basic first-key"),
        ("x-api-key", "FIRST-KEY"),
        ("x-other", "first-key"),
    ] {
        assert_eq!(status(&server, "POST", CHAT, &[JSON, bad]).await, 401, "{bad:?}");
    }
    for closed in ["/v1/models", "/metrics", "/v1/messages", "/nothing"] {
        assert_eq!(status(&server, "GET", closed, &[]).await, 401, "{closed}");
    }
    for open in ["/", "/health", "/ready"] {
        assert_eq!(status(&server, "GET", open, &[]).await, 200, "{open}");
    }
    assert_eq!(status(&server, "OPTIONS", CHAT, &[]).await, 204);
    let refused = Answer::of(server.respond("POST", CHAT, &[JSON], "{}").await).await;
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    insta::assert_json_snapshot!(refused.error());
}

#[tokio::test]
async fn pages_of_named_origins_may_call() {
    let origins = vec!["https://chat.example".to_owned()];
    let server = Server::with(ServerSettings { allowed_origins: origins, ..ServerSettings::default() });
    let host = ("host", "localhost:8000");
    for (origin, expected) in [
        ("https://chat.example", 200),
        ("http://localhost:8000", 200),
        ("https://evil.example", 403),
        ("null", 403),
    ] {
        assert_eq!(
            status(&server, "POST", CHAT, &[JSON, host, ("origin", origin)]).await,
            expected,
            "{origin}"
        );
    }
    assert_eq!(status(&server, "POST", CHAT, &[JSON, host]).await, 200);
    assert_eq!(status(&server, "POST", CHAT, &[JSON, ("host", "evil.example")]).await, 403);
    let page = [host, ("origin", "https://chat.example")];
    let answer = server.respond("GET", "/v1/models", &page, "").await;
    assert_eq!(answer.headers()["access-control-allow-origin"], "https://chat.example");
    assert_eq!(answer.headers()["vary"], "origin");
}

#[tokio::test]
async fn browsers_are_answered_beforehand() {
    let server = Server::new();
    let asked = [
        ("origin", "https://any.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
        ("access-control-request-private-network", "true"),
    ];
    let answer = server.respond("OPTIONS", CHAT, &asked, "").await;
    assert_eq!(answer.status(), 204);
    let headers = answer.headers();
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert_eq!(headers["access-control-allow-headers"], "authorization,content-type");
    assert_eq!(headers["access-control-allow-private-network"], "true");
    // Errors can be read by pages too.
    let refused = server.respond("POST", CHAT, &[JSON], "{").await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["access-control-allow-origin"]),
        (400, &"*".parse().unwrap())
    );
}

#[tokio::test]
async fn the_type_of_a_body_is_json_or_nothing() {
    let server = Server::new();
    for (kind, expected) in [
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/x+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 200),
    ] {
        assert_eq!(status(&server, "POST", CHAT, &[("content-type", kind)]).await, expected, "{kind}");
    }
    assert_eq!(status(&server, "POST", CHAT, &[]).await, 200);
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_again() {
    let engine = EngineOptions { max_batch: 1, waiting: 1, step_rows: None, prefix: None };
    let server = Setup { engine, ..Setup::default() }.open();
    // Nobody reads these, so they hold their places.
    let long = chat(json!({"stream": true, "max_tokens": 1900, "logit_bias": {"257": -100}})).to_string();
    let first = server.respond("POST", CHAT, &[JSON], long.clone()).await;
    let second = server.respond("POST", CHAT, &[JSON], long).await;
    let refused = Answer::of(server.respond("POST", CHAT, &[JSON], chat(json!({})).to_string()).await).await;
    assert_eq!(refused.headers["retry-after"], "1");
    insta::assert_json_snapshot!(refused.error());
    drop((first, second));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let server = Server::with(ServerSettings { body_time: Duration::ZERO, ..ServerSettings::default() });
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
    let refused = Answer::of(server.respond("POST", CHAT, &[JSON], never).await).await;
    assert_eq!(refused.error().0, 408);
}
