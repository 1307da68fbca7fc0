//! What a template writes for a call of an earlier turn, read back as if the model had answered so.

use dflash_text::{AnswerFormat, AnswerParser, ChatFormat, ChatRequest, Piece, Tokenizer};
use serde_json::{Value, json};

fn tool() -> Value {
    let properties = json!({
        "city": {"type": "string", "description": "c"}, "days": {"type": "integer", "description": "d"},
        "exact": {"type": "boolean", "description": "e"},
    });
    let parameters = json!({"type": "object", "properties": properties, "required": ["city"]});
    json!({"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": parameters}})
}

/// The ids that the template writes after the first message.
fn answer_ids(chat: &ChatFormat, messages: &[Value]) -> Vec<u32> {
    let ids = |messages: &[Value]| {
        let request = ChatRequest { tools: vec![tool()], ..ChatRequest::new(messages.to_vec()) };
        chat.prompt(&request).unwrap().ids
    };
    let (before, after) = (ids(&messages[..1]), ids(messages));
    let common = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    after[common..].to_vec()
}

/// Checks that a call comes back as it was sent.
pub fn check(name: &str, chat: &ChatFormat, tokenizer: &Tokenizer) {
    let arguments = json!({"city": "Brno, {x} \"y\"\n", "days": 3, "exact": true});
    let function = json!({"name": "get_weather", "arguments": arguments.to_string()});
    let call = json!({"id": "1", "type": "function", "function": function});
    let turns = [
        json!({"role": "user", "content": "U"}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
    ];
    let ids = answer_ids(chat, &turns);
    let format = AnswerFormat {
        reasoning: chat.reasoning().cloned(),
        tools: Some((chat.tools(), vec![tool()])),
        ..AnswerFormat::default()
    };
    let mut parser = AnswerParser::new(tokenizer, format).unwrap();
    let pieces: Vec<Piece> = ids.iter().flat_map(|&id| parser.push(id)).collect();
    assert_eq!(parser.calls(), 1, "{name}: {pieces:?} {}", tokenizer.decode(&ids, false));
    let json = pieces.iter().filter_map(|piece| match piece {
        Piece::CallArguments { json, .. } => Some(json.as_str()),
        _ => None,
    });
    let read: Value = serde_json::from_str(&json.collect::<String>()).unwrap();
    assert_eq!(read, arguments, "{name}");
}
