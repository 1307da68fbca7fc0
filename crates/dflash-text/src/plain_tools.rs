//! Tools for models whose chat template knows none: described in words, called and answered in text.

use serde_json::{Value, json};

use crate::Message;
use crate::python_text::JsonStyle;

/// What the system message says about the tools.
pub(crate) fn description(tools: &[Value]) -> String {
    let style = JsonStyle::new(None);
    let line = |tool: &Value| style.dumps(tool.get("function").unwrap_or(tool));
    let lines: Vec<String> = tools.iter().map(line).collect();
    format!(
        "You can use these tools, each described by a line of JSON:\n{}\n\n\
         To use a tool, write its name and its arguments as JSON between tags, once for each use:\n\
         <tool_call>\n{{\"name\": \"NAME\", \"arguments\": {{\"KEY\": \"VALUE\"}}}}\n</tool_call>\n\
         What the tool gives comes back between <tool_response> tags. When no tool is needed, answer in words.",
        lines.join("\n")
    )
}

/// Puts calls into the text of the assistant, and what tools gave into messages of the user.
pub(crate) fn in_words(messages: Vec<Message>) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    let mut after_tool = false;
    for message in messages {
        let is_tool = message.role() == "tool";
        match out.last_mut() {
            Some(last) if is_tool && after_tool => last.append("\n", &response(&message)),
            _ if is_tool => out.push(Message::new("user", response(&message))),
            _ => out.push(with_calls_in_words(message)),
        }
        after_tool = is_tool;
    }
    out
}

fn response(message: &Message) -> String {
    format!("<tool_response>\n{}\n</tool_response>", message.content().unwrap_or_default())
}

fn with_calls_in_words(mut message: Message) -> Message {
    let Some(Value::Array(calls)) = message.remove("tool_calls") else { return message };
    for call in &calls {
        message.append("\n", &call_in_words(&call["function"]));
    }
    message
}

fn call_in_words(function: &Value) -> String {
    let arguments = function.get("arguments").cloned().unwrap_or_else(|| json!({}));
    let call = json!({"name": function["name"], "arguments": arguments});
    format!("<tool_call>\n{}\n</tool_call>", JsonStyle::new(None).dumps(&call))
}
