//! What is kept of prompts: usage and metrics tell what was not read again, and answers are those of requests alone.

use dflash_engine::{EngineOptions, PrefixOptions};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::chat;
use crate::common::{Server, Setup};

const CHAT: &str = "/v1/chat/completions";

fn keeping() -> Server {
    let prefix = PrefixOptions { entries: 16, bytes: 1 << 24, longest: usize::MAX, stride: 4096 };
    let engine = EngineOptions { max_batch: 8, waiting: 64, step_rows: None, prefix: Some(prefix) };
    Setup { engine, drafts: true, ..Setup::default() }.open()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Text, prompt tokens and those of them that were kept.
async fn ask(server: &Server, messages: &[Value], more: Value) -> (String, u64, u64) {
    let mut body = chat(json!({"messages": messages, "max_tokens": 30}));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = server.post(CHAT, &body).await.json();
    let usage = &answer["usage"];
    let tokens = |value: &Value| value.as_u64().unwrap();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (text, tokens(&usage["prompt_tokens"]), tokens(&usage["prompt_tokens_details"]["cached_tokens"]))
}

#[tokio::test]
async fn usage_and_metrics_tell_what_was_not_read_again() {
    let server = keeping();
    let long = [user(&"What is kept? ".repeat(36))];
    let (text, prompt, cached) = ask(&server, &long, json!({})).await;
    assert!(prompt > 500 && cached == 0);
    assert_eq!(ask(&server, &long, json!({})).await, (text.clone(), prompt, prompt - 1));
    assert_eq!(
        ask(&server, &long, json!({"dflash": {"prefix_cache": false}})).await,
        (text.clone(), prompt, 0)
    );

    let grown = [long[0].clone(), json!({"role": "assistant", "content": text}), user("And now?")];
    let (_, more, kept) = ask(&server, &grown, json!({})).await;
    assert!(kept >= prompt && kept < more, "{kept} of {more}");

    let body = json!({"model": "tiny", "messages": long, "max_tokens": 30});
    let usage = server.post("/v1/messages", &body).await.json()["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"]), (&json!(1), &json!(prompt - 1)));

    let told = server.send("GET", "/metrics.json", "").await.json();
    let saved = (prompt - 1) + kept + (prompt - 1);
    assert_eq!(told["totals"]["prefill_tokens_restored"], saved);
    assert_eq!(told["totals"]["prefill_tokens_physical"], 4 * prompt + more - saved);
    assert_eq!((&told["prefix_cache"]["hits"], &told["prefix_cache"]["misses"]), (&json!(3), &json!(1)));
    let text = server.send("GET", "/metrics", "").await.text;
    for line in [
        "dflash_prefix_queries_total{found=\"whole\",tier=\"memory\"} 2.0".to_owned(),
        "dflash_prefix_queries_total{found=\"empty\",tier=\"none\"} 1.0".to_owned(),
        format!("dflash_prefix_saved_tokens_total {saved}.0"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn many_that_begin_alike_are_answered_as_alone() {
    let shared = json!({"role": "system", "content": "You are short. ".repeat(12)});
    let question = |number: usize| [shared.clone(), user(&format!("Question {number}?"))];
    let alone = Setup::default().open();
    let mut wanted = Vec::new();
    for number in 0..8 {
        wanted.push(ask(&alone, &question(number), json!({})).await.0);
    }
    let server = keeping();
    for round in 0..3 {
        let order = (0..8).map(|index| (index * 3 + round) % 8);
        let asked = order.map(|number| {
            let server = &server;
            let question = question(number);
            async move { (number, ask(server, &question, json!({})).await) }
        });
        for (number, (text, _, cached)) in join_all(asked).await {
            assert_eq!(text, wanted[number], "round {round}, question {number}");
            assert!(round == 0 || cached > 100, "round {round}, question {number}: {cached}");
        }
    }
}
