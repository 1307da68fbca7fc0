//! Conversations nobody could object to, on which a template is tried.

use serde_json::json;

use crate::{Message, RenderRequest};

/// They touch the branches that templates have.
pub(crate) fn harmless_requests() -> Vec<RenderRequest> {
    let system = Message::new("system", "b");
    let turns =
        [("user", "a"), ("assistant", "b"), ("user", "c")].map(|(role, text)| Message::new(role, text));
    let with_system = RenderRequest::new([&[system], &turns[..]].concat());
    let ended = RenderRequest { add_generation_prompt: false, ..with_system.clone() };
    vec![RenderRequest::new(turns.to_vec()), with_system, ended, harmless_tool_round()]
}

fn harmless_tool_round() -> RenderRequest {
    let parameters = json!({"type": "object", "properties": {}});
    let tool =
        json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters}});
    let call = json!({"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {}}});
    let messages = [
        json!({"role": "user", "content": "a"}),
        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
        json!({"role": "tool", "name": "f", "tool_call_id": "abcdefghi", "content": "b"}),
    ];
    let messages = messages.into_iter().flat_map(Message::from_json).collect();
    RenderRequest { tools: vec![tool], ..RenderRequest::new(messages) }
}
