use serde_json::{Map, Value, json};

/// A conversation in the form of the chat completions API, put together from the finer parts that other APIs have:
/// thoughts, text and tool calls that follow each other are one turn of the assistant.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<Value>,
    /// The assistant's turn that is not complete yet.
    turn: Option<Turn>,
}

/// One turn of the assistant.
#[derive(Debug, Default)]
struct Turn {
    reasoning: String,
    content: Vec<Value>,
    calls: Vec<Value>,
}

impl Conversation {
    /// A message of `system`, `developer` or `user`.
    pub fn message(&mut self, role: &str, content: Vec<Value>) {
        self.end_turn();
        self.messages.push(json!({"role": role, "content": content}));
    }

    /// More of the user's turn, or a new one.
    pub fn user(&mut self, content: Vec<Value>) {
        self.end_turn();
        match self.messages.last_mut() {
            Some(last) if last["role"] == "user" => {
                if let Some(parts) = last["content"].as_array_mut() {
                    parts.extend(content);
                }
            }
            _ => self.message("user", content),
        }
    }

    /// Text of the assistant's turn.
    pub fn answer(&mut self, content: impl IntoIterator<Item = Value>) {
        self.turn().content.extend(content);
    }

    /// Thoughts of the assistant's turn.
    pub fn reasoning(&mut self, text: &str) {
        self.turn().reasoning += text;
    }

    /// A tool call of the assistant's turn; `arguments` are JSON.
    pub fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let function = json!({"name": name, "arguments": arguments});
        self.turn().calls.push(json!({"id": id, "type": "function", "function": function}));
    }

    /// What a tool call gave.
    pub fn result(&mut self, call: &str, content: Vec<Value>) {
        self.end_turn();
        self.messages.push(json!({"role": "tool", "tool_call_id": call, "content": content}));
    }

    /// All messages.
    pub fn into_messages(mut self) -> Vec<Value> {
        self.end_turn();
        self.messages
    }

    fn turn(&mut self) -> &mut Turn {
        self.turn.get_or_insert_default()
    }

    fn end_turn(&mut self) {
        let Some(Turn { reasoning, content, calls }) = self.turn.take() else { return };
        let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
        message.insert("content".into(), content.into());
        if !reasoning.is_empty() {
            message.insert("reasoning_content".into(), reasoning.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        self.messages.push(message.into());
    }
}

/// A part of text.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
