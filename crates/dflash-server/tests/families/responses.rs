//! `/v1/responses`

use std::time::Duration;

use dflash_server::ServerSettings;
use serde_json::{Value, json};

use crate::common::{Server, steady};
use crate::{counting, with};

const PATH: &str = "/v1/responses";

fn hello(more: &Value) -> Value {
    with(json!({"max_output_tokens": 12, "input": "Hello"}), more)
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "description": "Counts", "parameters": counting()})
}

async fn both(server: &Server, body: &Value) -> Value {
    let whole = server.post(PATH, body).await.json();
    let events = server.post(PATH, &with(body.clone(), &json!({"stream": true}))).await.events();
    let last = events.last().unwrap();
    let echo = json!({"status": whole["status"]});
    assert_eq!(last["type"], format!("response.{}", whole["status"].as_str().unwrap()), "{echo}");
    assert_eq!(steady(last["response"].clone()), steady(whole.clone()));
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    whole
}

#[tokio::test]
async fn a_response() {
    let server = Server::new();
    let response = both(&server, &hello(&json!({"instructions": "Be short.", "metadata": {"a": "b"}}))).await;
    insta::assert_json_snapshot!(steady(response));
}

#[tokio::test]
async fn a_stream() {
    let server = Server::new();
    let events = server.post(PATH, &hello(&json!({"max_output_tokens": 3, "stream": true}))).await.events();
    let brief = |event: Value| {
        let mut event = steady(event);
        if let Some(response) = event.get_mut("response") {
            *response = response["status"].clone();
        }
        event
    };
    insta::assert_json_snapshot!(events.into_iter().map(brief).collect::<Vec<_>>());
}

#[tokio::test]
async fn thoughts_are_an_item_of_their_own() {
    let server = Server::new();
    let more = json!({"reasoning": {"effort": "low"}, "thinking_budget": 5, "max_output_tokens": 24});
    let response = both(&server, &hello(&more)).await;
    let output = response["output"].as_array().unwrap();
    assert_eq!(
        (&output[0]["type"], &output[1]["type"]),
        (&json!("reasoning"), &json!("message")),
        "{output:?}"
    );
    assert!(response["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() >= 5);
    let again = json!({"input": [{"role": "user", "content": "Hello"}, output[0], output[1], {"role": "user", "content": "And?"}]});
    assert_eq!(server.post(PATH, &hello(&again)).await.status, 200);
}

#[tokio::test]
async fn tools_are_called_and_their_results_read() {
    let server = Server::new();
    let ask = json!({"tools": [tool("count"), tool("other")], "max_output_tokens": 200, "parallel_tool_calls": false});
    for (choice, name) in
        [(json!({"type": "function", "name": "other"}), Some("other")), (json!("required"), None)]
    {
        let response = both(&server, &with(hello(&ask), &json!({"tool_choice": choice}))).await;
        let output = response["output"].as_array().unwrap();
        let calls: Vec<&Value> = output.iter().filter(|item| item["type"] == "function_call").collect();
        assert_eq!((calls.len(), &response["status"]), (1, &json!("completed")), "{response}");
        assert!(name.is_none_or(|name| calls[0]["name"] == name));
        let arguments: Value = serde_json::from_str(calls[0]["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["n"].as_u64().unwrap() <= 9);
        let result = json!({"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "4"});
        let again = json!({"input": [{"role": "user", "content": "Hello"}, calls[0], result]});
        assert_eq!(server.post(PATH, &with(hello(&ask), &again)).await.status, 200);
    }
}

#[tokio::test]
async fn functions_in_a_group_are_called() {
    let server = Server::new();
    let group =
        json!({"type": "namespace", "name": "team", "description": "A team", "tools": [tool("count")]});
    let ask =
        json!({"tools": [tool("count"), group], "max_output_tokens": 200, "parallel_tool_calls": false});
    let choose = json!({"tool_choice": {"type": "function", "name": "team.count"}});
    let response = both(&server, &with(hello(&ask), &choose)).await;
    let output = response["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    assert_eq!((&call["namespace"], &call["name"]), (&json!("team"), &json!("count")));
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "4"});
    let again = json!({"input": [{"role": "user", "content": "Hello"}, call, result]});
    assert_eq!(server.post(PATH, &with(hello(&ask), &again)).await.status, 200);
}

#[tokio::test]
async fn a_format_is_kept() {
    let server = Server::new();
    let schema = &tool("x")["parameters"];
    // The model knows no better than to think first.
    let format = json!({"type": "json_schema", "name": "n", "schema": schema});
    let text = json!({"text": {"format": format}, "thinking_budget": 2});
    let response = both(&server, &with(hello(&text), &json!({"max_output_tokens": 100}))).await;
    let value: Value = serde_json::from_str(response["output_text"].as_str().unwrap()).unwrap();
    assert!(value["n"].as_u64().unwrap() <= 9, "{value}");
}

#[tokio::test]
async fn what_cannot_be_obeyed_is_refused_by_name() {
    let server = Server::new();
    let mut told = Vec::new();
    for body in [
        json!({}),
        hello(&json!({"input": []})),
        hello(&json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})),
        hello(&json!({"input": [{"type": "item_reference", "id": "x"}]})),
        hello(&json!({"max_output_tokens": 0})),
        hello(&json!({"model": "gpt-4o"})),
        hello(&json!({"previous_response_id": "resp_1"})),
        hello(&json!({"conversation": "conv_1"})),
        hello(&json!({"background": true})),
        hello(&json!({"store": true})),
        hello(&json!({"truncation": "auto"})),
        hello(&json!({"include": ["file_search_call.results"]})),
        hello(&json!({"top_logprobs": 3})),
        hello(&json!({"tools": [{"type": "web_search"}]})),
        hello(&json!({"tools": [{"type": "function", "function": {"name": "a"}}]})),
        hello(&json!({"tools": [{"type": "namespace", "name": "a"}]})),
        hello(&json!({"tools": [{"type": "namespace", "name": "a", "tools": [tool("b")]}, tool("a.b")]})),
        hello(&json!({"tool_choice": "required"})),
        hello(&json!({"tool_choice": {"type": "allowed_tools", "tools": []}})),
        hello(&json!({"text": {"format": {"type": "yaml"}}})),
        hello(&json!({"text": {"verbosity": "low"}})),
        hello(&json!({"reasoning": {"effort": "huge"}})),
        hello(&json!({"input": "x".repeat(3000)})),
        hello(&json!({"max_tokens": 5})),
        hello(&json!({"max_completion_tokens": 5})),
        hello(&json!({"response_format": {"type": "json_object"}})),
        hello(&json!({"messages": [{"role": "user", "content": "x"}]})),
        hello(&json!({"system": "Be short."})),
        hello(&json!({"stop_sequences": ["x"]})),
        hello(&json!({"thinking": {"type": "disabled"}})),
        hello(&json!({"logprobs": true})),
        hello(&json!({"n": 2})),
    ] {
        let answer = server.post(PATH, &body).await;
        let error = &answer.json()["error"];
        told.push(format!("{} {} {}: {}", answer.status, error["code"], error["param"], error["message"]));
    }
    insta::assert_json_snapshot!(told);
}

#[tokio::test]
async fn what_changes_nothing_is_accepted() {
    let server = Server::new();
    for more in [
        json!({"store": false, "background": false, "truncation": "disabled", "include": ["reasoning.encrypted_content"]}),
        json!({"user": "u", "prompt_cache_key": "k", "service_tier": "auto", "a_new_field": 1}),
        json!({"text": {"format": {"type": "text"}}, "reasoning": {"summary": "auto"}}),
        json!({"stream_options": {"include_obfuscation": false}, "max_tool_calls": 3, "n": 1, "logprobs": false}),
    ] {
        let answer = server.post(PATH, &hello(&more)).await;
        assert_eq!(answer.status, 200, "{more}: {}", answer.text);
        assert_eq!(answer.json()["store"], false);
    }
}

#[tokio::test]
async fn signs_of_life_change_nothing() {
    let server = Server::with(ServerSettings { keep_alive: Duration::ZERO, ..ServerSettings::default() });
    both(&server, &hello(&json!({"instructions": "x".repeat(1500)}))).await;
}

#[tokio::test]
async fn a_stream_that_fails_ends_as_failed() {
    let server =
        Server::with(ServerSettings { request_timeout: Some(Duration::ZERO), ..ServerSettings::default() });
    let events =
        server.post(PATH, &hello(&json!({"stream": true, "max_output_tokens": 1000}))).await.events();
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    let whole = server.post(PATH, &hello(&json!({"max_output_tokens": 1000}))).await;
    assert_eq!(
        (whole.status.as_u16(), &whole.json()["error"]["message"]),
        (504, &last["response"]["error"]["message"])
    );
}

#[tokio::test]
async fn every_field_has_its_effect() {
    let server = Server::new();
    let base = json!({"temperature": 1.5, "seed": 10, "max_output_tokens": 40});
    let plain = server.post(PATH, &hello(&base)).await.json();
    assert_eq!(plain["usage"]["output_tokens"], 40, "the seed is of a long answer");
    let text = plain["output_text"].as_str().unwrap();
    for more in [
        json!({"temperature": 0}),
        json!({"seed": 2}),
        json!({"top_p": 0.05}),
        json!({"max_output_tokens": 39}),
        json!({"stop": &text[5..7]}),
        json!({"instructions": "Be short."}),
        json!({"tools": [tool("count")]}),
        json!({"tools": [tool("count")], "tool_choice": "required"}),
        json!({"reasoning": {"effort": "low"}, "thinking_budget": 3}),
        json!({"text": {"format": {"type": "json_object"}}}),
        json!({"chat_template_kwargs": {"enable_thinking": true}}),
    ] {
        let other = server.post(PATH, &with(hello(&base), &more)).await;
        assert_eq!(other.status, 200, "{more}: {}", other.text);
        assert_ne!(other.json()["dflash"]["ids_sha256"], plain["dflash"]["ids_sha256"], "{more}");
    }
}
