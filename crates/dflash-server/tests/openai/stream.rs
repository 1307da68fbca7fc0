use std::time::Duration;

use dflash_server::ServerSettings;
use serde_json::{Value, json};

use crate::common::{Server, Setup};
use crate::{Said, chat, steady};

const CHAT: &str = "/v1/chat/completions";

fn drafting() -> Server {
    Setup { drafts: true, ..Setup::default() }.open()
}

async fn streamed(server: &Server, more: &Value) -> Vec<Value> {
    let mut body = chat(more.clone());
    body["stream"] = json!(true);
    let answer = server.post(CHAT, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.chunks()
}

#[tokio::test]
async fn chunks_in_order() {
    let chunks = streamed(&Server::new(), &json!({"max_tokens": 3})).await;
    insta::assert_json_snapshot!(chunks.into_iter().map(steady).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_says_what_the_whole_answer_says() {
    let server = drafting();
    for wish in [
        json!({}),
        json!({"max_tokens": 1}),
        json!({"max_tokens": 60, "logprobs": true, "top_logprobs": 3}),
        json!({"n": 3, "temperature": 1, "seed": 2}),
        json!({"chat_template_kwargs": {"enable_thinking": true}}),
        json!({"stop": ["e", "o", "a"], "max_tokens": 60}),
        json!({"temperature": 1, "seed": 9, "max_tokens": 200, "logit_bias": {"257": 5}}),
        json!({"max_tokens": 3, "logit_bias": {"195": 100}}),
    ] {
        let chunks = streamed(&server, &wish).await;
        let whole = server.post(CHAT, &chat(wish.clone())).await.json();
        for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
            assert_eq!(Said::of(&chunks, index), Said::of_choice(choice), "{wish}");
        }
        let ids: Vec<&Value> = chunks.iter().map(|chunk| &chunk["id"]).collect();
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
        if whole["choices"].as_array().unwrap().len() == 1 {
            let last = chunks.last().unwrap();
            assert_eq!(last["dflash"]["ids_sha256"], whole["dflash"]["ids_sha256"]);
        }
    }
}

#[tokio::test]
async fn one_chunk_ends_each_choice() {
    let server = drafting();
    // Ends by the model, by the limit, by a stop string that is the first text.
    let first = streamed(&server, &json!({})).await;
    let first_text: String = Said::of(&first, 0).content.chars().take(1).collect();
    for (wish, finish) in [
        (json!({"logit_bias": {"257": 100}}), "stop"),
        (json!({"max_tokens": 1}), "length"),
        (json!({"stop": first_text}), "stop"),
    ] {
        let chunks = streamed(&server, &wish).await;
        assert_eq!(Said::of(&chunks, 0).finish, [finish]);
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], finish);
    }
    let chunks = streamed(&server, &json!({"stop": first_text})).await;
    assert_eq!(Said::of(&chunks, 0).content, "");
}

#[tokio::test]
async fn usage_comes_only_if_asked_for() {
    let server = Server::new();
    let asked = |options: Value| json!({"stream_options": options});
    for quiet in [json!({}), asked(json!({})), asked(json!({"include_usage": false})), asked(json!(null))] {
        let chunks = streamed(&server, &quiet).await;
        assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()), "{quiet}");
        assert!(chunks.iter().all(|chunk| !chunk["choices"].as_array().unwrap().is_empty()));
    }
    let chunks = streamed(&server, &asked(json!({"include_usage": true}))).await;
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(before.iter().all(|chunk| chunk["usage"].is_null()));
    let whole = server.post(CHAT, &chat(json!({}))).await.json();
    assert_eq!(last["usage"], whole["usage"]);
}

#[tokio::test]
async fn cycles_are_told_live() {
    let server = drafting();
    let wish = json!({"max_tokens": 40, "dflash": {"live": true}});
    let chunks = streamed(&server, &wish).await;
    let cycles: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["dflash"]["cycle"]).filter(|c| c.is_object()).collect();
    let committed: u64 = cycles.iter().map(|cycle| cycle["committed"].as_u64().unwrap()).sum();
    // The first id comes from prefill.
    assert_eq!(committed + 1, 40);
    assert_eq!(chunks.last().unwrap()["dflash"]["cycles"], cycles.len());
    let quiet = streamed(&server, &json!({"max_tokens": 40})).await;
    assert!(quiet.iter().all(|chunk| chunk["dflash"]["cycle"].is_null()));
}

#[tokio::test]
async fn keep_alives_are_valid_chunks_and_say_nothing() {
    let settings = ServerSettings { keep_alive: Duration::ZERO, ..ServerSettings::default() };
    let (impatient, patient) = (Server::with(settings), Server::new());
    let messages = json!([{"role": "user", "content": "word ".repeat(300)}]);
    let mut body = chat(json!({"messages": messages, "stream": true}));
    let answer = impatient.post(CHAT, &body).await;
    assert!(
        answer.text.contains("\n: keepalive ") || answer.text.starts_with(": keepalive "),
        "{}",
        answer.text
    );
    body["stream"] = json!(false);
    let whole = patient.post(CHAT, &body).await.json();
    assert_eq!(Said::of(&answer.chunks(), 0), Said::of_choice(&whole["choices"][0]));
}

#[tokio::test]
async fn a_failure_after_the_stream_began_is_an_event() {
    let settings = ServerSettings { request_timeout: Some(Duration::ZERO), ..ServerSettings::default() };
    let server = Server::with(settings);
    let messages = json!([{"role": "user", "content": "word ".repeat(300)}]);
    let answer = server.post(CHAT, &chat(json!({"messages": messages, "stream": true}))).await;
    assert_eq!(answer.status, 200);
    let last = answer.text.trim_end().rsplit("\n\n").next().unwrap();
    let error: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    insta::assert_json_snapshot!(error);
    assert!(!answer.text.contains("[DONE]"));
    let whole = server.post(CHAT, &chat(json!({"messages": messages}))).await;
    assert_eq!((whole.status.as_u16(), whole.json()), (504, error));
}
