//! Every error of the routes, as a client sees it.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::chat;
use crate::common::{CONTEXT, Server};

/// Status, field and message of each request.
async fn said(server: &Server, path: &str, bodies: impl IntoIterator<Item = Value>) -> String {
    let mut lines = String::new();
    for body in bodies {
        let (status, error) = server.post(path, &body).await.error();
        let text = |name: &str| error[name].as_str().unwrap_or("-").to_owned();
        writeln!(lines, "{status} {} {}: {}", text("param"), text("code"), text("message")).unwrap();
    }
    lines
}

#[tokio::test]
async fn fields_of_a_chat() {
    let server = Server::new();
    let tool = json!({"type": "function", "function": {"name": "f"}});
    let wishes = [
        json!({"messages": null}),
        json!({"messages": {}}),
        json!({"messages": []}),
        json!({"messages": ["hi"]}),
        json!({"messages": [{"content": "x"}]}),
        json!({"messages": [{"role": "user", "content": 3}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
        json!({"messages": [{"role": "user", "content": "x".repeat(CONTEXT)}]}),
        json!({"model": "gpt-5"}),
        json!({"model": 3}),
        json!({"max_tokens": 0}),
        json!({"max_tokens": -1}),
        json!({"max_tokens": 1.5}),
        json!({"max_tokens": "8"}),
        json!({"max_completion_tokens": 0}),
        json!({"temperature": "hot"}),
        json!({"top_p": 0}),
        json!({"repetition_penalty": 0.001}),
        json!({"logit_bias": {"300": 1}}),
        json!({"logit_bias": {"1": 101}}),
        json!({"n": 0}),
        json!({"n": 200}),
        json!({"stop": ""}),
        json!({"stop": {}}),
        json!({"logprobs": 3}),
        json!({"top_logprobs": 2}),
        json!({"logprobs": true, "top_logprobs": 21}),
        json!({"stream": "yes"}),
        json!({"stream_options": {"include_usage": 1}}),
        json!({"tools": [{"type": "web_search"}]}),
        json!({"tools": [tool, tool]}),
        json!({"tool_choice": "required"}),
        json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
        json!({"tools": [tool], "tool_choice": {"type": "allowed_tools"}}),
        json!({"response_format": {"type": "xml"}}),
        json!({"reasoning_effort": "extreme"}),
        json!({"thinking_budget": -1}),
        json!({"chat_template_kwargs": {"messages": []}}),
        json!({"dflash": {"fast": true}}),
        json!({"dflash": {"speculative": 1}}),
        json!({"draft_model": "other"}),
        json!({"metadata": 3}),
        json!({"user": 3}),
    ];
    insta::assert_snapshot!(said(&server, "/v1/chat/completions", wishes.map(chat)).await);
}

#[tokio::test]
async fn fields_that_are_known_and_not_obeyed() {
    let server = Server::new();
    let wishes = [
        json!({"functions": [{"name": "f"}]}),
        json!({"function_call": "auto"}),
        json!({"audio": {"voice": "x"}}),
        json!({"modalities": ["text", "audio"]}),
        json!({"web_search_options": {}}),
        json!({"verbosity": "low"}),
        json!({"role_mapping": {"user": "U"}}),
        json!({"adapters": "a"}),
        json!({"xtc_probability": 0.5}),
        json!({"best_of": 2}),
        json!({"min_tokens": 5}),
        json!({"ignore_eos": true}),
        json!({"guided_json": {}}),
        json!({"repetition_context_size": 20, "repetition_penalty": 1.2}),
        json!({"continue_final_message": true}),
        json!({"max_new_tokens": 5}),
        json!({"n_predict": 5}),
    ];
    insta::assert_snapshot!(said(&server, "/v1/chat/completions", wishes.map(chat)).await);
}

/// Each of these means something in another API.
#[tokio::test]
async fn fields_of_other_apis() {
    let server = Server::new();
    let wishes = [
        json!({"system": "Be short."}),
        json!({"instructions": "Be short."}),
        json!({"input": "Hi"}),
        json!({"prompt": "Hi"}),
        json!({"stop_sequences": ["x"]}),
        json!({"max_output_tokens": 5}),
        json!({"text": {"format": {"type": "json_object"}}}),
        json!({"output_config": {"effort": "low"}}),
        json!({"output_format": {"type": "json_schema", "schema": {}}}),
        json!({"thinking": {"type": "disabled"}}),
        json!({"reasoning": {"effort": "low"}}),
    ];
    let chats = said(&server, "/v1/chat/completions", wishes.clone().map(chat)).await;
    // A plain completion has neither messages nor formats under these names.
    let known =
        ["system", "instructions", "input", "stop_sequences", "max_output_tokens", "thinking", "reasoning"];
    let bodies = wishes.into_iter().filter(|wish| known.iter().any(|name| !wish[name].is_null()));
    let bodies = bodies.map(|mut body| {
        body["prompt"] = json!("x");
        body
    });
    let completions = said(&server, "/v1/completions", bodies).await;
    insta::assert_snapshot!(format!("{chats}\n{completions}"));
    let nothing = json!({"system": "", "input": null, "stop_sequences": [], "text": {}, "thinking": null});
    assert_eq!(server.post("/v1/chat/completions", &chat(nothing)).await.status, 200);
}

#[tokio::test]
async fn fields_of_a_completion() {
    let server = Server::new();
    let bodies = [
        json!({}),
        json!({"prompt": 3}),
        json!({"prompt": ""}),
        json!({"prompt": []}),
        json!({"prompt": [[]]}),
        json!({"prompt": [1, "a"]}),
        json!({"prompt": [1, -1]}),
        json!({"prompt": [262]}),
        json!({"prompt": "x".repeat(CONTEXT)}),
        json!({"prompt": ["x"], "n": 16}),
        json!({"prompt": vec!["x"; 13]}),
        json!({"prompt": "x", "logprobs": 6}),
        json!({"prompt": "x", "logprobs": true}),
        json!({"prompt": "x", "echo": true}),
        json!({"prompt": "x", "suffix": "y"}),
        json!({"prompt": "x", "best_of": 3}),
        json!({"prompt": "x", "top_logprobs": 2}),
        json!({"prompt": "x", "chat_template_kwargs": {"enable_thinking": true}}),
        json!({"prompt": "x", "response_format": {"type": "xml"}}),
        json!({"messages": []}),
    ];
    insta::assert_snapshot!(said(&server, "/v1/completions", bodies).await);
}

#[tokio::test]
async fn bodies_that_are_no_objects() {
    let server = Server::new();
    let mut lines = String::new();
    let nested = format!("{{\"messages\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies: [(&str, Vec<u8>); 8] = [
        ("empty", Vec::new()),
        ("truncated", b"{\"messages\": [{\"role\": \"us".to_vec()),
        ("list", b"[]".to_vec()),
        ("text", b"\"x\"".to_vec()),
        ("utf-8", b"{\"messages\": \"\xff\"}".to_vec()),
        ("twice", b"{\"messages\": [], \"messages\": []}".to_vec()),
        ("nested", nested.into_bytes()),
        ("large", vec![b' '; 20 << 20]),
    ];
    for (name, body) in bodies {
        for path in ["/v1/chat/completions", "/v1/completions"] {
            let (status, error) = server.send("POST", path, body.clone()).await.error();
            writeln!(lines, "{name}: {status} {}", error["message"].as_str().unwrap()).unwrap();
        }
    }
    insta::assert_snapshot!(lines);
}

#[tokio::test]
async fn routes_and_methods_that_are_not_there() {
    let server = Server::new();
    for (method, path) in [
        ("GET", "/nothing"),
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/v1/models/tiny"),
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/nothing"),
    ] {
        let answer = server.send(method, path, "").await;
        let mut body = answer.json();
        if body["request_id"].is_string() {
            body["request_id"] = "[request_id]".into();
        }
        insta::assert_json_snapshot!(json!([format!("{method} {path}"), answer.status.as_u16(), body]));
    }
}
