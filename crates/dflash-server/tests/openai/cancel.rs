//! A client that leaves: its place is free within a step.

use axum::response::Response;
use dflash_engine::EngineOptions;
use futures_util::StreamExt;
use serde_json::json;

use crate::chat;
use crate::common::{Server, Setup};

const CHAT: &str = "/v1/chat/completions";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn one_at_a_time() -> Server {
    let engine = EngineOptions { max_batch: 1, waiting: 4, step_rows: None, prefix: None };
    Setup { engine, ..Setup::default() }.open()
}

/// Goes on for long, if it is let.
async fn endless(server: &Server, stream: bool) -> Response {
    let body = chat(json!({"stream": stream, "max_tokens": 1900, "logit_bias": {"257": -100}}));
    server.respond("POST", CHAT, &JSON, body.to_string()).await
}

/// Waits until nothing is in work: cancelled requests, since those that run would not end by themselves.
async fn idle(server: &Server) {
    loop {
        let load = server.app.model.engine.load();
        if load.active + load.waiting == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn in_the_middle_of_a_stream() {
    let server = one_at_a_time();
    let mut body = endless(&server, true).await.into_body().into_data_stream();
    for _ in 0..5 {
        body.next().await.unwrap().unwrap();
    }
    drop(body);
    idle(&server).await;
    let load = server.app.model.engine.load();
    assert_eq!(load.cancelled, 1);
    assert!(load.steps < 1900, "{load:?}");
    assert_eq!(server.post(CHAT, &chat(json!({}))).await.status, 200);
}

#[tokio::test]
async fn before_anything_was_read() {
    let server = one_at_a_time();
    drop(endless(&server, true).await);
    idle(&server).await;
    assert_eq!(server.app.model.engine.load().cancelled, 1);
}

#[tokio::test]
async fn in_the_queue() {
    let server = one_at_a_time();
    let first = endless(&server, true).await;
    let queued = endless(&server, true).await;
    assert_eq!(server.app.model.engine.load().active + server.app.model.engine.load().waiting, 2);
    drop(queued);
    while server.app.model.engine.load().waiting > 0 {
        tokio::task::yield_now().await;
    }
    drop(first);
    idle(&server).await;
    assert_eq!(server.app.model.engine.load().cancelled, 2);
}

#[tokio::test]
async fn of_an_answer_that_is_not_streamed() {
    let server = one_at_a_time();
    let request = endless(&server, false);
    {
        let mut request = std::pin::pin!(request);
        // Until the engine has it; then the connection goes, and with it the request.
        while server.app.model.engine.load().steps < 3 {
            tokio::select! {
                biased;
                _ = request.as_mut() => panic!("it goes on for long"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    idle(&server).await;
    assert_eq!(server.app.model.engine.load().cancelled, 1);
}

#[tokio::test]
async fn of_several_answers_all_stop() {
    let engine = EngineOptions { max_batch: 2, waiting: 8, step_rows: None, prefix: None };
    let server = Setup { engine, ..Setup::default() }.open();
    let body = chat(json!({"stream": true, "n": 4, "max_tokens": 1900, "logit_bias": {"257": -100}}));
    let mut answers =
        server.respond("POST", CHAT, &JSON, body.to_string()).await.into_body().into_data_stream();
    answers.next().await.unwrap().unwrap();
    drop(answers);
    idle(&server).await;
    assert_eq!(server.app.model.engine.load().cancelled, 4);
}
