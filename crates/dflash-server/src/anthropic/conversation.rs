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
        return Err(body.wrong("messages", "at least one message"));
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
                kind @ ("image" | "document") => {
                    Err(block.refused("type", format!("this model reads text, no {kind}")))
                }
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
