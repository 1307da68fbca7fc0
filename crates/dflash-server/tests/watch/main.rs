//! What a server tells of requests that it really had.

#[path = "../common/mod.rs"]
mod common;

use common::{Server, Setup};
use serde_json::{Value, json};

async fn json_of(server: &Server) -> Value {
    server.send("GET", "/metrics.json", "").await.json()
}

async fn text_of(server: &Server) -> String {
    server.send("GET", "/metrics", "").await.text
}

/// A sample of the text.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

fn chat(content: &str, max_tokens: usize) -> Value {
    json!({"messages": [{"role": "user", "content": content}], "max_tokens": max_tokens})
}

#[tokio::test]
async fn what_was_answered_is_counted() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    let mut usage = (0, 0);
    for body in [chat("hello", 24), chat("hello again", 7), json!({"prompt": "abcabcabc", "max_tokens": 40})]
    {
        let path = if body["prompt"].is_null() { "/v1/chat/completions" } else { "/v1/completions" };
        let answer = server.post(path, &body).await.json();
        usage.0 += answer["usage"]["prompt_tokens"].as_u64().unwrap();
        usage.1 += answer["usage"]["completion_tokens"].as_u64().unwrap();
    }
    let (text, json) = (text_of(&server).await, json_of(&server).await);
    assert_eq!(json["totals"]["requests"], 3);
    for (name, total, expected) in [
        ("dflash_prompt_tokens_total", "prompt_tokens", usage.0),
        ("dflash_generated_tokens_total", "generated_tokens", usage.1),
    ] {
        assert_eq!(sample(&text, name), expected as f64, "{name}");
        assert_eq!(json["totals"][total], expected, "{total}");
    }
    let cycles: f64 = text
        .lines()
        .filter(|line| line.starts_with("dflash_cycles_total"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(json["totals"]["cycles"].as_f64(), Some(cycles));
    assert_eq!(sample(&text, "dflash_tokens_per_cycle"), usage.1 as f64 / cycles);
    let records = json["recent_requests"].as_array().unwrap();
    for field in ["generated_tokens", "drafted_tokens", "accepted_tokens", "cycles"] {
        let sum: u64 = records.iter().map(|record| record[field].as_u64().unwrap()).sum();
        assert_eq!(json["totals"][field], sum, "{field}");
    }
    assert!(json["totals"]["drafted_tokens"].as_u64() > Some(0));
    assert!(json["current_request"].is_null() && json["engine"]["active"] == 0);
}

#[tokio::test]
async fn refusals_are_counted_by_reason() {
    let server = Server::new();
    server.post("/v1/chat/completions", &json!({})).await;
    server.post("/v1/chat/completions", &json!({"messages": 1})).await;
    server.send("GET", "/v1/nothing", "").await;
    server.send("DELETE", "/v1/models", "").await;
    let json = json_of(&server).await;
    assert_eq!(json["counts"]["refused"], json!({"invalid": 2, "method": 1, "not_found": 1}));
    let text = text_of(&server).await;
    assert_eq!(sample(&text, r#"dflash_refused_total{reason="invalid"}"#), 2.0);
    assert_eq!(json["totals"]["requests"], 0);
}

#[tokio::test]
async fn one_who_leaves_is_counted() {
    let server = Server::new();
    let mut body = chat("hello", 1000);
    body["stream"] = true.into();
    let headers = [("content-type", "application/json"), ("host", "127.0.0.1")];
    drop(server.respond("POST", "/v1/chat/completions", &headers, body.to_string()).await);
    let text = text_of(&server).await;
    assert_eq!(sample(&text, r#"dflash_requests_total{api="chat.completions",outcome="cancelled"}"#), 1.0);
}

#[tokio::test]
async fn the_reader_chooses_the_form() {
    let server = Server::new();
    for (accept, content_type) in [
        ("*/*", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("application/json", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/plain; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ] {
        let response =
            server.respond("GET", "/metrics?all=1", &[("accept", accept), ("host", "localhost")], "").await;
        assert_eq!(response.headers()["content-type"], content_type, "{accept}");
    }
    assert!(text_of(&server).await.ends_with("# EOF\n"));
}
