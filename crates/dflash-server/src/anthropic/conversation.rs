use std::collections::HashSet;

use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;
use crate::conversation::{Conversation, text};

/// `system` and `messages` in the form of the chat completions API. Turns of the user that follow each other are
/// one, as in the Anthropic API.
///
/// # Errors
/// What is missing, malformed, or no text.
pub fn messages(body: &Fields<'_>) -> Result<Vec<Value>, ApiError> {
    let mut reader = Reader::default();
    if let Some(system) = content(body, "system", "system")? {
        reader.conversation.message("system", system);
    }
    let messages = body.objects("messages")?;
    let messages = messages.ok_or_else(|| body.missing("messages", "a list of messages"))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "messages is empty: it takes a list of messages"));
    }
    for message in &messages {
        reader.message(message)?;
    }
    match messages.last().map(|last| last.string("role")) {
        Some(Ok(Some("assistant"))) => Err(ApiError::invalid(
            "messages",
            "messages ends with the assistant: an answer cannot be continued, end with the user",
        )),
        _ => Ok(reader.conversation.into_messages()),
    }
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    /// Ids of the calls that were made.
    calls: HashSet<String>,
}

impl Reader {
    fn message(&mut self, message: &Fields<'_>) -> Result<(), ApiError> {
        let role = message.word("role", &["user", "assistant", "system"])?;
        match role.ok_or_else(|| message.missing("role", "user or assistant"))? {
            "user" => self.user(message),
            "assistant" => self.assistant(message),
            role => {
                let parts = content(message, "content", role)?.unwrap_or_default();
                self.conversation.message(role, parts);
                Ok(())
            }
        }
    }

    fn user(&mut self, message: &Fields<'_>) -> Result<(), ApiError> {
        let mut parts = Vec::new();
        for block in blocks(message, "content")? {
            let Block::Fields(block) = block else {
                parts.push(block.text("the user")?);
                continue;
            };
            match block.required_string("type")? {
                "tool_result" => {
                    if !parts.is_empty() {
                        self.conversation.user(std::mem::take(&mut parts));
                    }
                    self.result(&block)?;
                }
                _ => parts.push(Block::Fields(block).text("the user")?),
            }
        }
        if !parts.is_empty() {
            self.conversation.user(parts);
        }
        Ok(())
    }

    fn assistant(&mut self, message: &Fields<'_>) -> Result<(), ApiError> {
        self.conversation.answer([]);
        for block in blocks(message, "content")? {
            let Block::Fields(fields) = &block else {
                self.conversation.answer([block.text("the assistant")?]);
                continue;
            };
            match fields.required_string("type")? {
                "thinking" => self.conversation.reasoning(fields.required_string("thinking")?),
                // Sealed by another server: there is nothing in it that a model could read.
                "redacted_thinking" => {}
                "tool_use" => self.call(fields)?,
                _ => self.conversation.answer([block.text("the assistant")?]),
            }
        }
        Ok(())
    }

    fn call(&mut self, block: &Fields<'_>) -> Result<(), ApiError> {
        let (id, name) = (block.required_string("id")?, block.required_string("name")?);
        let Some(input) = block.object("input")? else {
            return Err(block.missing("input", "an object with the arguments"));
        };
        let arguments = Value::Object(input.object_itself().clone()).to_string();
        self.conversation.call(id, name, &arguments);
        self.calls.insert(id.to_owned());
        Ok(())
    }

    fn result(&mut self, block: &Fields<'_>) -> Result<(), ApiError> {
        let call = block.required_string("tool_use_id")?;
        if !self.calls.contains(call) {
            return Err(block.wrong("tool_use_id", "the id of a tool_use block before it"));
        }
        let mut parts = content(block, "content", "a tool_result")?.unwrap_or_default();
        // A template has no other place for it.
        if block.boolean("is_error")? == Some(true) {
            parts.insert(0, text("Error: "));
        }
        self.conversation.result(call, parts);
        Ok(())
    }
}

/// A part of a content.
enum Block<'a> {
    /// The whole content, as a string.
    Text(&'a str),
    Fields(Fields<'a>),
}

impl Block<'_> {
    /// A part of text; `place` says where it stands.
    fn text(&self, place: &str) -> Result<Value, ApiError> {
        match self {
            Block::Text(string) => Ok(text(string)),
            Block::Fields(block) => match block.required_string("type")? {
                "text" => Ok(text(block.required_string("text")?)),
                kind @ ("image" | "document") => Err(block.refused(
                    "type",
                    format!("a block of the type {kind} is no text, and the model reads nothing else"),
                )),
                _ => Err(block.wrong("type", &format!("a block that {place} may hold, such as text"))),
            },
        }
    }
}

/// A content that holds nothing but text.
fn content(fields: &Fields<'_>, name: &str, place: &str) -> Result<Option<Vec<Value>>, ApiError> {
    match fields.has(name) {
        false => Ok(None),
        true => {
            blocks(fields, name)?.iter().map(|block| block.text(place)).collect::<Result<_, _>>().map(Some)
        }
    }
}

fn blocks<'a>(fields: &Fields<'a>, name: &str) -> Result<Vec<Block<'a>>, ApiError> {
    match fields.value(name) {
        None => Err(fields.missing(name, "a string or a list of blocks")),
        Some(Value::String(string)) => Ok(vec![Block::Text(string)]),
        Some(Value::Array(_)) => {
            Ok(fields.objects(name)?.unwrap_or_default().into_iter().map(Block::Fields).collect())
        }
        Some(_) => Err(fields.wrong(name, "a string or a list of blocks")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<Value, ApiError> {
        messages(&Fields::at("", body).unwrap()).map(Value::from)
    }

    #[test]
    fn blocks_become_messages() {
        let body = json!({
            "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "Hello"},
                {"role": "user", "content": [{"type": "text", "text": "again"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"b": 1, "a": "é"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "down"}], "is_error": true},
                    {"type": "text", "text": "And now?"},
                ]},
            ],
        });
        let call = json!({"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{\"b\":1,\"a\":\"é\"}"}});
        assert_eq!(
            read(&body).unwrap(),
            json!([
                {"role": "system", "content": [text("Be short.")]},
                {"role": "user", "content": [text("Hello"), text("again")]},
                {"role": "assistant", "content": [text("I look.")], "reasoning_content": "Hm.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "t1", "content": [text("Error: "), text("down")]},
                {"role": "user", "content": [text("And now?")]},
            ])
        );
    }

    #[test]
    fn what_cannot_be_read_names_its_place() {
        let param = |messages: Value| read(&json!({"messages": messages})).unwrap_err().param.unwrap();
        let user = |block: Value| param(json!([{"role": "user", "content": [block]}]));
        assert_eq!(read(&json!({})).unwrap_err().param.unwrap(), "messages");
        assert_eq!(param(json!([])), "messages");
        assert_eq!(param(json!([3])), "messages[0]");
        assert_eq!(param(json!([{"role": "tool", "content": "x"}])), "messages[0].role");
        assert_eq!(param(json!([{"role": "user"}])), "messages[0].content");
        assert_eq!(user(json!({"type": "image", "source": {}})), "messages[0].content[0].type");
        assert_eq!(user(json!({"type": "text"})), "messages[0].content[0].text");
        assert_eq!(
            user(json!({"type": "tool_use", "id": "a", "name": "b", "input": {}})),
            "messages[0].content[0].type"
        );
        assert_eq!(
            user(json!({"type": "tool_result", "tool_use_id": "none"})),
            "messages[0].content[0].tool_use_id"
        );
        assert_eq!(
            param(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])),
            "messages"
        );
    }
}
