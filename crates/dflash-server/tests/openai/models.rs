use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use dflash_engine::{Request, TokenGuard, Verdict};
use dflash_server::ServerSettings;

use crate::common::Server;

/// Hangs in the middle of a step until it is let go.
struct Hangs(Receiver<()>);

impl TokenGuard for Hangs {
    fn push(&mut self, _: u32) -> Verdict {
        let _ = self.0.recv();
        Verdict::Stop { keep: true }
    }
}

#[tokio::test]
async fn a_step_that_hangs_is_not_healthy() {
    let settings = ServerSettings { longest_step: Duration::ZERO, ..ServerSettings::default() };
    let server = Server::with(settings);
    let (go, held) = channel();
    let engine = &server.app.model.engine;
    let request = Request { guard: Some(Box::new(Hangs(held))), ..Request::new(vec![65], 4) };
    let submission = engine.submit(request).unwrap();
    while engine.load().step.is_none_or(|step| step.is_zero()) {
        tokio::task::yield_now().await;
    }
    let answer = server.send("GET", "/health", "").await;
    assert_eq!(answer.status, 503);
    assert!(answer.json()["reason"].as_str().unwrap().starts_with("a step has run for"));
    go.send(()).unwrap();
    drop(go);
    submission.into_iter().for_each(drop);
    while engine.load().step.is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.send("GET", "/health", "").await.status, 200);
}

#[tokio::test]
async fn models_are_listed_and_found() {
    let server = Server::new();
    insta::assert_json_snapshot!(server.send("GET", "/v1/models", "").await.json());
    for path in ["/v1/models/tiny", "/v1/models/claude-tiny", "/v1/models/org/tiny", "/models"] {
        assert_eq!(server.send("GET", path, "").await.status, 200, "{path}");
    }
    let missing = server.send("GET", "/v1/models/gpt-5", "").await;
    insta::assert_json_snapshot!(missing.error());
}

#[tokio::test]
async fn health_says_what_drafts() {
    let server = Server::new();
    insta::assert_json_snapshot!(server.send("GET", "/health", "").await.json());
    assert_eq!(server.send("GET", "/ready", "").await.status, 200);
}
