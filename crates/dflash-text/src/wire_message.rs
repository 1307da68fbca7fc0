//! Messages as clients send them, in the one form that templates are used to.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{Message, TextError};

/// Reads a message. Keys without a value go, since templates ask whether a key is there; content is never absent,
/// since templates join it with text.
pub(crate) fn read(value: &Value) -> Result<Message, TextError> {
    let mut fields = value.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    let role = match value["role"].as_str() {
        Some("developer") => "system",
        Some("function") => "tool",
        Some(role) => role,
        None => return Message::from_json(value.clone()),
    };
    let role = role.to_owned();
    if role == "assistant" {
        unify_calls(&mut fields)?;
    }
    fields.insert("role".to_owned(), role.into());
    fields.entry("content").or_insert_with(|| "".into());
    Message::from_json(Value::Object(fields))
}

/// Calls stand under one key, and only where there are any.
fn unify_calls(fields: &mut Map<String, Value>) -> Result<(), TextError> {
    if let Some(function) = fields.shift_remove("function_call") {
        let call = json!([{"type": "function", "function": function}]);
        fields.entry("tool_calls").or_insert(call);
    }
    let Some(calls) = fields.get("tool_calls") else { return Ok(()) };
    let calls = calls.as_array().ok_or_else(|| invalid("tool_calls is not a list"))?;
    if calls.is_empty() {
        fields.shift_remove("tool_calls");
        return Ok(());
    }
    match calls.iter().all(|call| call["function"]["name"].is_string()) {
        true => Ok(()),
        false => Err(invalid("a tool call has no function name")),
    }
}

/// Gives results the names of their tools, which some templates show, where only the call's id says them.
pub(crate) fn name_results(messages: &mut [Message]) {
    let mut names: HashMap<String, String> = HashMap::new();
    for message in messages {
        let calls = message.fields().get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            if let (Some(id), Some(name)) = (call["id"].as_str(), call["function"]["name"].as_str()) {
                names.insert(id.to_owned(), name.to_owned());
            }
        }
        let named = message.role() != "tool" || message.text("name").is_some();
        let name = message.text("tool_call_id").and_then(|id| names.get(id)).filter(|_| !named);
        if let Some(name) = name {
            message.set("name", name);
        }
    }
}

fn invalid(reason: &str) -> TextError {
    TextError::InvalidMessage { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: Value) -> Value {
        Value::Object(read(&value).unwrap().fields().clone())
    }

    #[test]
    fn keys_without_a_value_go_and_content_is_never_absent() {
        let sent =
            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [], "audio": null});
        assert_eq!(fields(sent), json!({"role": "assistant", "content": ""}));
        assert_eq!(
            fields(json!({"role": "developer", "content": "x"})),
            json!({"role": "system", "content": "x"})
        );
    }

    #[test]
    fn calls_of_the_older_form_become_those_of_the_newer() {
        let call = json!({"name": "f", "arguments": "{\"a\": 1}"});
        let read = fields(json!({"role": "assistant", "function_call": call}));
        assert_eq!(
            read["tool_calls"],
            json!([{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}])
        );
        let result = fields(json!({"role": "function", "name": "f", "content": "1"}));
        assert_eq!(result["role"], "tool");
    }

    #[test]
    fn calls_without_a_name_are_refused() {
        for calls in [json!({}), json!([1]), json!([{"function": {}}]), json!([{"name": "f"}])] {
            let error = read(&json!({"role": "assistant", "tool_calls": calls})).unwrap_err();
            assert!(matches!(error, TextError::InvalidMessage { .. }));
        }
    }

    #[test]
    fn results_get_the_names_of_their_calls() {
        let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let sent = [
            json!({"role": "assistant", "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": "1", "content": "x"}),
            json!({"role": "tool", "tool_call_id": "1", "name": "own", "content": "x"}),
            json!({"role": "tool", "tool_call_id": "2", "content": "x"}),
        ];
        let mut messages: Vec<Message> = sent.iter().map(|value| read(value).unwrap()).collect();
        name_results(&mut messages);
        assert_eq!(
            messages[1..].iter().map(|m| m.text("name")).collect::<Vec<_>>(),
            [Some("f"), Some("own"), None]
        );
    }
}
