//! Answers that must fit, from a model that would say anything.

use serde_json::{Value, json};

use crate::chat;
use crate::common::{Server, Setup};

const CHAT: &str = "/v1/chat/completions";

fn drafting() -> Server {
    Setup { drafts: true, ..Setup::default() }.open()
}

async fn answer(server: &Server, more: Value) -> Value {
    let answer = server.post(CHAT, &chat(more)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn tool(name: &str) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"enum": ["Brno", "Praha"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": false,
    });
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

/// With and without a draft, greedy and drawn.
fn ways() -> impl Iterator<Item = Value> {
    let plain = json!({"speculative": false});
    [
        json!({"max_tokens": 400}),
        json!({"max_tokens": 400, "temperature": 1, "seed": 3}),
        json!({"max_tokens": 400, "temperature": 1, "seed": 3, "dflash": plain}),
    ]
    .into_iter()
}

fn with(mut wish: Value, name: &str, value: Value) -> Value {
    wish[name] = value;
    wish
}

#[tokio::test]
async fn json_fits_its_schema() {
    let server = drafting();
    let schema = tool("x")["function"]["parameters"].clone();
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "trip", "schema": schema, "strict": true}});
    let mut texts = Vec::new();
    for wish in ways() {
        let body = answer(&server, with(wish, "response_format", format.clone())).await;
        let text = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(["Brno", "Praha"].iter().any(|city| value["city"] == *city), "{text}");
        assert!((1..=9).contains(&value["days"].as_i64().unwrap()), "{text}");
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        texts.push(text);
    }
    assert_eq!(texts[1], texts[2], "drafting changes nothing");
}

#[tokio::test]
async fn choices_and_patterns() {
    let server = drafting();
    for wish in ways() {
        let choices = json!({"type": "choice", "choices": ["yes (1+1)", "no."]});
        let body = answer(&server, with(wish.clone(), "response_format", choices)).await;
        let text = body["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(["yes (1+1)", "no."].contains(&text), "{text}");
        let pattern = json!({"type": "regex", "pattern": "[a-c]{3}-[0-9]{2}"});
        let body = answer(&server, with(wish, "response_format", pattern)).await;
        let text = body["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(text.len() == 6 && text[..3].bytes().all(|byte| (b'a'..=b'c').contains(&byte)), "{text}");
    }
}

#[tokio::test]
async fn demanded_tools_are_called() {
    let server = drafting();
    let named = json!({"type": "function", "function": {"name": "g"}});
    for (choice, names) in [(json!("required"), vec!["f", "g"]), (named, vec!["g"])] {
        for wish in ways() {
            let wish =
                with(with(wish, "tools", json!([tool("f"), tool("g")])), "tool_choice", choice.clone());
            let wish = with(wish, "parallel_tool_calls", json!(false));
            let body = answer(&server, wish.clone()).await;
            let choice = &body["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            assert_eq!(calls.len(), 1);
            let function = &calls[0]["function"];
            assert!(names.iter().any(|name| function["name"] == *name));
            let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            assert!(arguments["days"].is_i64());
            let chunks = server.post(CHAT, &chat(with(wish, "stream", json!(true)))).await.chunks();
            assert_eq!(streamed_calls(&chunks), [(function["name"].clone(), function["arguments"].clone())]);
            assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
        }
    }
}

/// Names and arguments, put together from deltas by index.
fn streamed_calls(chunks: &[Value]) -> Vec<(Value, Value)> {
    let mut calls: Vec<(Value, String)> = Vec::new();
    for delta in
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array()).flatten()
    {
        let index = delta["index"].as_u64().unwrap() as usize;
        if delta["id"].is_string() {
            assert_eq!(index, calls.len());
            calls.push((delta["function"]["name"].clone(), String::new()));
        }
        calls[index].1 += delta["function"]["arguments"].as_str().unwrap();
    }
    calls.into_iter().map(|(name, arguments)| (name, arguments.into())).collect()
}

#[tokio::test]
async fn with_tools_a_format_holds_for_what_is_no_call() {
    let server = drafting();
    let format = json!({"type": "choice", "choices": ["yes", "no"]});
    for seed in 0..6 {
        let wish = json!({"tools": [tool("f")], "response_format": format, "max_tokens": 400, "temperature": 1, "seed": seed});
        let body = answer(&server, wish).await;
        let message = &body["choices"][0]["message"];
        match message["tool_calls"].as_array() {
            Some(calls) => assert!(calls.iter().all(|call| call["function"]["name"] == "f"), "{message}"),
            None => assert!(["yes", "no"].iter().any(|text| message["content"] == *text), "{message}"),
        }
    }
}

#[tokio::test]
async fn a_call_that_the_limit_cuts_is_no_call() {
    let server = drafting();
    for limit in [1, 8, 30] {
        let wish = json!({"tools": [tool("f")], "tool_choice": "required", "max_tokens": limit});
        let choice = &answer(&server, wish.clone()).await["choices"][0];
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["tool_calls"]),
            (&json!("length"), &json!(null))
        );
        let chunks = server.post(CHAT, &chat(with(wish, "stream", json!(true)))).await.chunks();
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn no_call_comes_out_of_none() {
    let server = drafting();
    let wish = json!({"tools": [tool("f")], "tool_choice": "none", "max_tokens": 60});
    let body = answer(&server, wish).await;
    assert!(body["choices"][0]["message"]["tool_calls"].is_null());
    let shown = answer(&server, json!({"tools": [tool("f")], "max_tokens": 1})).await;
    assert!(shown["usage"]["prompt_tokens"].as_u64() > body["usage"]["prompt_tokens"].as_u64());
}

#[tokio::test]
async fn thoughts_end_at_their_budget() {
    let server = drafting();
    // This model likes to think again, but for that.
    let again = json!({"258": -100});
    let wish = json!({"enable_thinking": true, "thinking_budget": 5, "max_tokens": 40, "logit_bias": again});
    let body = answer(&server, wish).await;
    let reasoning = &body["usage"]["completion_tokens_details"]["reasoning_tokens"];
    assert!(reasoning.as_u64().unwrap() <= 6, "{body}");
    assert_ne!(body["choices"][0]["message"]["content"], "");
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_before_anything_is_streamed() {
    let server = drafting();
    for format in [
        json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}),
        json!({"type": "regex", "pattern": "("}),
    ] {
        let refused = server.post(CHAT, &chat(json!({"response_format": format, "stream": true}))).await;
        let (status, error) = refused.error();
        assert_eq!((status, error["param"].as_str()), (400, Some("response_format")), "{error}");
    }
}
