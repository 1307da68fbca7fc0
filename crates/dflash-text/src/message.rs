use serde_json::{Map, Value};

use crate::TextError;

/// One message of a conversation, in the form chat templates read.
///
/// It keeps every key it was given, in order, because templates differ in what they look at. Only what
/// templates cannot take is changed: content given as parts becomes one string, and the arguments of tool calls,
/// which the wire carries as a JSON string, become an object. An absent `content` stays absent and a null one
/// stays null: templates tell them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    fields: Map<String, Value>,
}

impl Message {
    /// A plain message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let fields = [("role", Value::String(role.into())), ("content", Value::String(content.into()))];
        Self { fields: fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect() }
    }

    /// A message as it comes over the wire.
    pub fn from_json(value: Value) -> Result<Self, TextError> {
        let Value::Object(mut fields) = value else { return Err(invalid("it is not an object")) };
        if !matches!(fields.get("role"), Some(Value::String(_))) {
            return Err(invalid("role is missing or not a string"));
        }
        if let Some(content) = fields.get_mut("content") {
            *content = joined_content(content.take())?;
        }
        let calls = fields.get_mut("tool_calls").and_then(Value::as_array_mut);
        calls.into_iter().flatten().for_each(parse_arguments);
        Ok(Self { fields })
    }

    /// Who speaks.
    pub fn role(&self) -> &str {
        self.text("role").unwrap_or_default()
    }

    /// What is said; `None` when absent or null.
    pub fn content(&self) -> Option<&str> {
        self.text("content")
    }

    /// The text under `key`; `None` when it is absent or no string.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key).and_then(Value::as_str)
    }

    pub(crate) fn set(&mut self, key: &str, text: &str) {
        self.fields.insert(key.to_owned(), text.into());
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Value> {
        self.fields.shift_remove(key)
    }

    /// Puts `text` after the content, with `between` if there is any.
    pub(crate) fn append(&mut self, between: &str, text: &str) {
        let content = match self.content() {
            None | Some("") => text.to_owned(),
            Some(content) => format!("{content}{between}{text}"),
        };
        self.set("content", &content);
    }

    /// The message with every value changed by `change`.
    pub(crate) fn map_values(&self, change: impl Fn(&Value) -> Value) -> Self {
        Self { fields: self.fields.iter().map(|(key, value)| (key.clone(), change(value))).collect() }
    }

    /// Every key of the message.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

fn joined_content(content: Value) -> Result<Value, TextError> {
    match content {
        Value::Null | Value::String(_) => Ok(content),
        Value::Array(parts) => parts.iter().map(part_text).collect::<Result<String, _>>().map(Value::String),
        _ => Err(invalid("content is neither a string nor a list of parts")),
    }
}

fn part_text(part: &Value) -> Result<&str, TextError> {
    let kind = part["type"].as_str().ok_or_else(|| invalid("a content part has no type"))?;
    if !["text", "input_text", "output_text"].contains(&kind) {
        return Err(TextError::UnsupportedContentPart { kind: kind.to_owned() });
    }
    part["text"].as_str().ok_or_else(|| invalid("a text part has no text"))
}

/// Arguments that are no JSON object stay as they are: the model wrote them, and the conversation must go on.
fn parse_arguments(call: &mut Value) {
    let function = if call["function"].is_object() { &mut call["function"] } else { call };
    let Some(arguments) = function.get_mut("arguments") else { return };
    let Some(text) = arguments.as_str() else { return };
    if text.trim().is_empty() {
        *arguments = Value::Object(Map::new());
    } else if let Ok(object @ Value::Object(_)) = serde_json::from_str(text) {
        *arguments = object;
    }
}

fn invalid(reason: &str) -> TextError {
    TextError::InvalidMessage { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_joined_in_order() {
        let parts = json!([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]);
        for role in ["system", "user", "assistant", "tool"] {
            let message = Message::from_json(json!({"role": role, "content": parts})).unwrap();
            assert_eq!((message.role(), message.content()), (role, Some("a b")));
        }
    }

    #[test]
    fn absent_null_and_empty_content_stay_apart() {
        let fields = |value| Message::from_json(value).unwrap().fields().get("content").cloned();
        assert_eq!(fields(json!({"role": "assistant"})), None);
        assert_eq!(fields(json!({"role": "assistant", "content": null})), Some(Value::Null));
        assert_eq!(fields(json!({"role": "assistant", "content": ""})), Some(json!("")));
    }

    #[test]
    fn what_cannot_be_rendered_is_refused() {
        let error = |value| Message::from_json(value).unwrap_err();
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]});
        assert!(matches!(error(image), TextError::UnsupportedContentPart { kind } if kind == "image_url"));
        for value in [
            json!("hi"),
            json!({"content": "x"}),
            json!({"role": 1}),
            json!({"role": "user", "content": 3}),
            json!({"role": "user", "content": ["x"]}),
            json!({"role": "user", "content": [{"type": "text"}]}),
        ] {
            assert!(matches!(error(value), TextError::InvalidMessage { .. }));
        }
    }

    #[test]
    fn tool_arguments_become_an_object() {
        let arguments = |text: Value| {
            let call =
                json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]});
            Message::from_json(call).unwrap().fields()["tool_calls"][0]["function"]["arguments"].clone()
        };
        assert_eq!(arguments(json!(r#"{"b": 1, "a": 2}"#)).to_string(), r#"{"b":1,"a":2}"#);
        assert_eq!(arguments(json!("")), json!({}));
        assert_eq!(arguments(json!("{broken")), json!("{broken"));
        assert_eq!(arguments(json!({"x": 1})), json!({"x": 1}));
    }
}
