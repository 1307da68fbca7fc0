//! `/openapi.json` against what is served.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::Server;

async fn described() -> Value {
    Server::new().send("GET", "/openapi.json", "").await.json()
}

/// Every path that a source file routes, written as OpenAPI writes it.
fn routed(folder: &Path, paths: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            routed(&entry.path(), paths);
        } else {
            let source = fs::read_to_string(entry.path()).unwrap_or_default();
            let found = source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap());
            paths.extend(found.map(|path| path.replace("{*", "{")));
        }
    }
}

#[tokio::test]
async fn every_route_is_described_and_every_description_served() {
    let mut paths = BTreeSet::new();
    routed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    let described = described().await;
    let told: BTreeSet<String> = described["paths"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(told, paths);
    let server = Server::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let answer = server.send(&method.to_uppercase(), &path.replace("{id}", "tiny"), "{}").await;
            let expected = if method == "get" { 200 } else { 400 };
            assert_eq!(answer.status, expected, "{method} {path}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn references_lead_somewhere() {
    let described = described().await;
    let mut used = BTreeSet::new();
    references(&described, &mut used);
    for reference in &used {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(described.pointer(pointer).is_some(), "{reference}");
    }
    for (kind, parts) in described["components"].as_object().unwrap() {
        for name in parts.as_object().unwrap().keys().filter(|_| kind != "securitySchemes") {
            assert!(used.contains(&format!("#/components/{kind}/{name}")), "{kind} {name} is not used");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        _ => {}
    }
}

/// Fields that a schema demands are in the answer, and those it names have its types.
#[tokio::test]
async fn answers_fit_their_schemas() {
    let server = Server::new();
    let described = described().await;
    let hello = json!([{"role": "user", "content": "Hello"}]);
    for (path, body, schema) in [
        (
            "/v1/chat/completions",
            json!({"messages": hello, "max_tokens": 4, "logprobs": true, "top_logprobs": 2}),
            "ChatCompletion",
        ),
        ("/v1/completions", json!({"prompt": "Hello", "max_tokens": 4}), "Completion"),
        ("/v1/responses", json!({"input": "Hello", "max_output_tokens": 4}), "Response"),
        ("/v1/messages", json!({"messages": hello, "max_tokens": 4}), "Message"),
        ("/v1/messages/count_tokens", json!({"messages": hello}), "TokenCount"),
        ("/v1/chat/completions", json!({"messages": hello, "max_tokens": 0}), "OpenAiError"),
        ("/v1/messages", json!({"messages": hello, "max_tokens": 0}), "AnthropicError"),
    ] {
        let answer = server.post(path, &body).await.json();
        check(&described, &described["components"]["schemas"][schema], &answer)
            .unwrap_or_else(|why| panic!("{path}: {why}\n{answer:#}"));
    }
}

/// As much of JSON Schema as the description uses for answers.
fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return check(root, root.pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let failed: Vec<String> =
            choices.iter().map_while(|choice| check(root, choice, value).err()).collect();
        return if failed.len() < choices.len() { Ok(()) } else { Err(failed.join(" and ")) };
    }
    let wrong = || Err(format!("{value} does not fit {schema}"));
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong();
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return wrong();
    }
    let fits = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(other) => panic!("{other}"),
        None => true,
    };
    if !fits {
        return wrong();
    }
    for item in value.as_array().into_iter().flatten() {
        check(root, &schema["items"], item)?;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            check(root, schema, value).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    Ok(())
}
