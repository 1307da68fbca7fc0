use serde_json::Value;

use super::namespace::full_name;
use crate::ApiError;
use crate::body::Fields;
use crate::conversation::{Conversation, text};

/// `instructions` and `input` in the form of the chat completions API.
///
/// # Errors
/// What is missing, malformed, or no text.
pub fn messages(body: &Fields<'_>) -> Result<Vec<Value>, ApiError> {
    let mut conversation = Conversation::default();
    if let Some(instructions) = body.string("instructions")? {
        conversation.message("system", vec![text(instructions)]);
    }
    match body.value("input") {
        None => return Err(body.missing("input", "a string or a list of items")),
        Some(Value::String(input)) => conversation.message("user", vec![text(input)]),
        Some(_) => {
            for item in list(body)? {
                match item {
                    Item::Text(input) => conversation.message("user", vec![text(input)]),
                    Item::Fields(item) => take(&mut conversation, &item)?,
                }
            }
        }
    }
    Ok(conversation.into_messages())
}

enum Item<'a> {
    Text(&'a str),
    Fields(Fields<'a>),
}

fn list<'a>(body: &Fields<'a>) -> Result<Vec<Item<'a>>, ApiError> {
    let takes = "a string or a list of items";
    let Some(Value::Array(items)) = body.value("input") else { return Err(body.wrong("input", takes)) };
    if items.is_empty() {
        return Err(ApiError::invalid("input", format!("input is empty: it takes {takes}")));
    }
    let item = |(index, item): (usize, &'a Value)| match item {
        Value::String(text) => Ok(Item::Text(text)),
        _ => Fields::at(format!("{}[{index}]", body.path("input")), item).map(Item::Fields),
    };
    items.iter().enumerate().map(item).collect()
}

fn take(conversation: &mut Conversation, item: &Fields<'_>) -> Result<(), ApiError> {
    match item.string("type")?.unwrap_or("message") {
        "message" => message(conversation, item),
        "function_call" => {
            let id = match item.string("call_id")? {
                Some(id) => id,
                None => item.required_string("id")?,
            };
            let name = full_name(item.string("namespace")?, item.required_string("name")?);
            conversation.call(id, &name, item.string("arguments")?.unwrap_or("{}"));
            Ok(())
        }
        "function_call_output" => {
            let call = item.required_string("call_id")?;
            conversation.result(call, parts(item, "output")?);
            Ok(())
        }
        "reasoning" => reasoning(conversation, item),
        "item_reference" => {
            Err(item.refused("type", "nothing is stored here that it could refer to; send the item itself"))
        }
        _ => Err(item.wrong("type", "message, function_call, function_call_output or reasoning")),
    }
}

fn message(conversation: &mut Conversation, item: &Fields<'_>) -> Result<(), ApiError> {
    let role = item.word("role", &["user", "assistant", "system", "developer"])?.unwrap_or("user");
    let parts = parts(item, "content")?;
    match role {
        "assistant" => conversation.answer(parts),
        role => conversation.message(role, parts),
    }
    Ok(())
}

/// The thoughts themselves where they are there, else their summary.
fn reasoning(conversation: &mut Conversation, item: &Fields<'_>) -> Result<(), ApiError> {
    let content = item.objects("content")?.unwrap_or_default();
    let summary = item.objects("summary")?.unwrap_or_default();
    for part in if content.is_empty() { &summary } else { &content } {
        conversation.reasoning(part.required_string("text")?);
    }
    Ok(())
}

fn parts(item: &Fields<'_>, name: &str) -> Result<Vec<Value>, ApiError> {
    match item.value(name) {
        None => Err(item.missing(name, "a string or a list of parts")),
        Some(Value::String(string)) => Ok(vec![text(string)]),
        Some(Value::Array(_)) => item.objects(name)?.unwrap_or_default().iter().map(part).collect(),
        Some(_) => Err(item.wrong(name, "a string or a list of parts")),
    }
}

fn part(part: &Fields<'_>) -> Result<Value, ApiError> {
    match part.required_string("type")? {
        "input_text" | "output_text" | "text" => Ok(text(part.required_string("text")?)),
        "refusal" => Ok(text(part.required_string("refusal")?)),
        kind @ ("input_image" | "input_file" | "input_audio") => Err(part.refused(
            "type",
            format!("a part of the type {kind} is no text, and the model reads nothing else"),
        )),
        _ => Err(part.wrong("type", "input_text or output_text")),
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
    fn items_become_messages() {
        let body = json!({
            "instructions": "Be short.",
            "input": [
                "Hello",
                {"role": "user", "content": [{"type": "input_text", "text": "again"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "Sunny"},
            ],
        });
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
        assert_eq!(
            read(&body).unwrap(),
            json!([
                {"role": "system", "content": [text("Be short.")]},
                {"role": "user", "content": [text("Hello")]},
                {"role": "user", "content": [text("again")]},
                {"role": "assistant", "content": [text("I look.")], "reasoning_content": "Hm.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": [text("Sunny")]},
            ])
        );
        assert_eq!(
            read(&json!({"input": "Hello"})).unwrap(),
            json!([{"role": "user", "content": [text("Hello")]}])
        );
    }

    #[test]
    fn what_cannot_be_read_names_its_place() {
        let param = |input: Value| read(&json!({"input": input})).unwrap_err().param.unwrap();
        assert_eq!(read(&json!({})).unwrap_err().param.unwrap(), "input");
        assert_eq!(param(json!([])), "input");
        assert_eq!(param(json!({})), "input");
        assert_eq!(param(json!([3])), "input[0]");
        assert_eq!(param(json!([{"role": "user"}])), "input[0].content");
        assert_eq!(param(json!([{"type": "item_reference", "id": "x"}])), "input[0].type");
        assert_eq!(
            param(json!([{"role": "user", "content": [{"type": "input_image"}]}])),
            "input[0].content[0].type"
        );
        assert_eq!(param(json!([{"type": "function_call_output", "output": ""}])), "input[0].call_id");
    }
}
