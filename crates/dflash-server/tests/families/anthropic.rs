//! `/v1/messages` and `/v1/messages/count_tokens`

use std::time::Duration;

use dflash_server::ServerSettings;
use serde_json::{Value, json};

use crate::common::{Answer, Server, steady};
use crate::{counting, with};

const PATH: &str = "/v1/messages";

fn hello(more: &Value) -> Value {
    with(json!({"max_tokens": 12, "messages": [{"role": "user", "content": "Hello"}]}), more)
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Counts", "input_schema": counting()})
}

/// What a client makes of a stream.
fn replayed(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut arguments = String::new();
    for event in events {
        let index = event["index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => {
                for field in ["text", "thinking", "signature"] {
                    if let Some(more) = event["delta"][field].as_str() {
                        let text = &mut message["content"][index][field];
                        *text = (text.as_str().unwrap().to_owned() + more).into();
                    }
                }
                arguments += event["delta"]["partial_json"].as_str().unwrap_or("");
            }
            "content_block_stop" if message["content"][index]["type"] == "tool_use" => {
                message["content"][index]["input"] = serde_json::from_str(&arguments).unwrap_or(json!({}));
            }
            "message_delta" => {
                message = with(message, &event["delta"]);
                message["usage"] = event["usage"].clone();
                message["dflash"] = event["dflash"].clone();
            }
            _ => {}
        }
    }
    message
}

async fn both(server: &Server, body: &Value) -> Value {
    let whole = server.post(PATH, body).await.json();
    let events = server.post(PATH, &with(body.clone(), &json!({"stream": true}))).await.events();
    assert_eq!(steady(replayed(&events)), steady(whole.clone()), "{events:#?}");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    whole
}

#[tokio::test]
async fn a_message() {
    let server = Server::new();
    let message = both(&server, &hello(&json!({"system": "Be short.", "model": "claude-tiny"}))).await;
    insta::assert_json_snapshot!(steady(message));
}

#[tokio::test]
async fn a_stream() {
    let server = Server::new();
    let events = server.post(PATH, &hello(&json!({"max_tokens": 3, "stream": true}))).await.events();
    insta::assert_json_snapshot!(events.into_iter().map(steady).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stop_sequence_is_cut_and_told() {
    let server = Server::new();
    let text = both(&server, &hello(&json!({}))).await["content"][0]["text"].as_str().unwrap().to_owned();
    let stop = &text[3..5];
    let cut = both(&server, &hello(&json!({"stop_sequences": ["never there", stop]}))).await;
    assert_eq!(cut["content"][0]["text"], text[..text.find(stop).unwrap()]);
    assert_eq!((&cut["stop_reason"], &cut["stop_sequence"]), (&json!("stop_sequence"), &json!(stop)));
    // Cut to nothing.
    let none = both(&server, &hello(&json!({"stop_sequences": [&text[..1]]}))).await;
    assert_eq!((&none["content"], &none["stop_reason"]), (&json!([]), &json!("stop_sequence")));
}

#[tokio::test]
async fn thoughts_are_a_block_of_their_own() {
    let server = Server::new();
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 5}, "max_tokens": 24});
    let message = both(&server, &hello(&thinking)).await;
    let content = message["content"].as_array().unwrap();
    assert_eq!((&content[0]["type"], &content[0]["signature"]), (&json!("thinking"), &json!("")));
    assert_eq!(content[1]["type"], "text", "the budget ends the thoughts: {content:?}");
    assert!(message["usage"]["output_tokens_details"]["thinking_tokens"].as_u64().unwrap() >= 5);
    let off = both(&server, &hello(&json!({"thinking": {"type": "disabled"}}))).await;
    assert_eq!(off["content"][0]["type"], "text");
}

#[tokio::test]
async fn tools_are_called_and_their_results_read() {
    let server = Server::new();
    let ask = json!({"tools": [tool("count"), tool("other")], "max_tokens": 200});
    for (choice, name) in [
        (json!({"type": "tool", "name": "other"}), Some("other")),
        (json!({"type": "any", "disable_parallel_tool_use": true}), None),
    ] {
        let body = with(hello(&ask), &json!({"tool_choice": choice}));
        let message = both(&server, &body).await;
        let calls: Vec<&Value> = message["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .collect();
        assert_eq!((&message["stop_reason"], calls.len()), (&json!("tool_use"), 1), "{message}");
        assert!(name.is_none_or(|name| calls[0]["name"] == name));
        assert!(calls[0]["input"]["n"].as_u64().unwrap() <= 9);
        let id = calls[0]["id"].as_str().unwrap();
        assert!(id.starts_with("toolu_"));
        let answered = json!({"messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "4"}]},
        ]});
        assert_eq!(server.post(PATH, &with(hello(&ask), &answered)).await.status, 200);
    }
}

#[tokio::test]
async fn counted_tokens_are_those_of_the_prompt() {
    let server = Server::new();
    for more in [
        json!({}),
        json!({"system": [{"type": "text", "text": "Be short."}]}),
        json!({"tools": [tool("count")]}),
        json!({"tools": [tool("count")], "tool_choice": {"type": "none"}}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
    ] {
        let body = hello(&more);
        let counted = server.post("/v1/messages/count_tokens", &body).await.json();
        let used = server.post(PATH, &with(body, &json!({"max_tokens": 1}))).await.json();
        assert_eq!(counted, json!({"input_tokens": used["usage"]["input_tokens"]}), "{more}");
    }
}

#[tokio::test]
async fn what_cannot_be_obeyed_is_refused_by_name() {
    let server = Server::new();
    let mut told = Vec::new();
    for body in [
        json!({"messages": [{"role": "user", "content": "Hello"}]}),
        json!({"max_tokens": 4}),
        hello(&json!({"max_tokens": 0})),
        hello(&json!({"model": "claude-other"})),
        hello(&json!({"temperature": "hot"})),
        hello(&json!({"stop_sequences": [""]})),
        hello(&json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})),
        hello(
            &json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}),
        ),
        hello(
            &json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}),
        ),
        hello(&json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})),
        hello(&json!({"tools": [{"name": "a b", "input_schema": {}}]})),
        hello(&json!({"tools": [{"name": "a"}]})),
        hello(&json!({"tools": [tool("a"), tool("a")]})),
        hello(&json!({"tool_choice": {"type": "tool", "name": "a"}})),
        hello(&json!({"tool_choice": {"type": "sometimes"}})),
        hello(&json!({"thinking": {"type": "enabled"}})),
        hello(&json!({"mcp_servers": [{"url": "x"}]})),
        hello(&json!({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}})),
        hello(&json!({"output_config": {"format": {"type": "json_schema", "schema": 3}}})),
        hello(&json!({"metadata": "x"})),
        hello(&json!({"max_completion_tokens": 5})),
        hello(&json!({"max_output_tokens": 5})),
        hello(&json!({"stop": "x"})),
        hello(&json!({"response_format": {"type": "json_object"}})),
        hello(&json!({"reasoning_effort": "low"})),
        hello(&json!({"reasoning": {"effort": "low"}})),
        hello(&json!({"enable_thinking": true})),
        hello(&json!({"thinking_budget": 5})),
        hello(&json!({"input": "x"})),
        hello(&json!({"instructions": "Be short."})),
        hello(&json!({"logprobs": true})),
        hello(&json!({"top_logprobs": 2})),
        hello(&json!({"n": 2})),
    ] {
        let Answer { status, text, .. } = server.post(PATH, &body).await;
        let error: Value = serde_json::from_str(&text).unwrap();
        told.push(format!(
            "{status} {}: {}",
            error["error"]["type"].as_str().unwrap(),
            error["error"]["message"]
        ));
    }
    insta::assert_json_snapshot!(told);
}

#[tokio::test]
async fn what_changes_nothing_is_accepted() {
    let server = Server::new();
    for more in [
        json!({"temperature": 1, "top_p": 0.9, "top_k": 40}),
        json!({"metadata": {"user_id": "u"}, "service_tier": "auto", "a_new_field": {"x": 1}}),
        json!({"mcp_servers": [], "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}),
        json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}),
        json!({"max_tokens": 20_000_000, "stop_sequences": ["a", "e", "i", "o", "u", " ", "n"]}),
        json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ] {
        let answer = server.post(PATH, &hello(&more)).await;
        assert_eq!(answer.status, 200, "{more}: {}", answer.text);
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_the_family() {
    let server = Server::new();
    let mut told = Vec::new();
    for (method, path, body) in [
        ("POST", PATH, "{"),
        ("POST", PATH, "[]"),
        ("POST", "/v1/messages/batches", "{}"),
        ("GET", PATH, ""),
        ("POST", "/v1/messages/count_tokens", "{}"),
    ] {
        let answer = server.send(method, path, body).await;
        told.push(json!({"request": format!("{method} {path} {body}"), "status": answer.status.as_u16(), "error": steady(answer.json())}));
    }
    insta::assert_json_snapshot!(told);
}

#[tokio::test]
async fn signs_of_life_change_nothing() {
    let server = Server::with(ServerSettings { keep_alive: Duration::ZERO, ..ServerSettings::default() });
    let long = json!({"system": "x".repeat(1500)});
    both(&server, &hello(&long)).await;
}

#[tokio::test]
async fn a_stream_that_fails_ends_with_an_error() {
    let server =
        Server::with(ServerSettings { request_timeout: Some(Duration::ZERO), ..ServerSettings::default() });
    let events = server.post(PATH, &hello(&json!({"stream": true, "max_tokens": 1000}))).await.events();
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("timeout_error")));
    let whole = server.post(PATH, &hello(&json!({"max_tokens": 1000}))).await;
    assert_eq!((whole.status.as_u16(), &whole.json()["error"]), (504, &last["error"]));
}

#[tokio::test]
async fn every_field_has_its_effect() {
    let server = Server::new();
    let base = json!({"temperature": 1.5, "seed": 10, "max_tokens": 40});
    let plain = server.post(PATH, &hello(&base)).await.json();
    assert_eq!(plain["usage"]["output_tokens"], 40, "the seed is of a long answer");
    assert_eq!(
        steady(server.post(PATH, &hello(&base)).await.json()),
        steady(plain.clone()),
        "a seed names a text"
    );
    let text = plain["content"][0]["text"].as_str().unwrap();
    for more in [
        json!({"temperature": 0}),
        json!({"seed": 2}),
        json!({"top_k": 1}),
        json!({"top_p": 0.05}),
        json!({"min_p": 0.9}),
        json!({"presence_penalty": 2}),
        json!({"frequency_penalty": 2}),
        json!({"repetition_penalty": 3}),
        json!({"max_tokens": 39}),
        json!({"stop_sequences": [&text[5..7]]}),
        json!({"system": "Be short."}),
        json!({"tools": [tool("count")]}),
        json!({"tools": [tool("count")], "tool_choice": {"type": "any"}}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 3}}),
        json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "boolean"}}}}),
        json!({"output_format": {"type": "json_schema", "schema": {"type": "boolean"}}}),
        json!({"chat_template_kwargs": {"enable_thinking": true}}),
    ] {
        let other = server.post(PATH, &with(hello(&base), &more)).await;
        assert_eq!(other.status, 200, "{more}: {}", other.text);
        assert_ne!(other.json()["dflash"]["ids_sha256"], plain["dflash"]["ids_sha256"], "{more}");
    }
    let slow =
        server.post(PATH, &with(hello(&base), &json!({"dflash": {"speculative": false}}))).await.json();
    assert_eq!(slow["content"], plain["content"]);
}
