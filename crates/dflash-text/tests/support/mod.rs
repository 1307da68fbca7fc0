//! What the tests against golden data share.

use std::path::PathBuf;

use dflash_text::{ChatTemplate, Detokenizer, Message, RenderRequest, TextError, Tokenizer};
use serde_json::Value;

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(name)).unwrap()).unwrap()
}

pub fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = Detokenizer::new(tokenizer).with_special();
    let text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text + &stream.flush()
}

/// What the conversation is for this crate: content parts become one string, as they come over the wire.
pub fn request(conversation: &Value, render: &Value) -> RenderRequest {
    let messages = conversation["messages"].as_array().unwrap().iter().cloned();
    let mut request =
        RenderRequest::new(messages.map(|message| Message::from_json(message).unwrap()).collect());
    request.tools = conversation["tools"].as_array().cloned().unwrap_or_default();
    request.add_generation_prompt = render["add_generation_prompt"].as_bool().unwrap();
    request.extra = render["variables"].as_object().unwrap().clone();
    request.now = Some(0);
    request
}

/// Parts reach a template as one string here; the reference hands it the list.
pub fn is_parts(conversation: &str) -> bool {
    conversation == "parts"
}

/// Renders, and compares the text or the kind of error.
pub fn check_render(name: &str, template: &ChatTemplate, conversation: &Value, render: &Value) {
    let result = template.render(&request(conversation, render));
    match (&render["error"], &render["text"], result) {
        (_, Value::String(text), Ok(prompt)) => assert_eq!(&prompt.to_string(), text, "{name}: {render}"),
        (Value::String(words), _, Err(TextError::TemplateRaised { message })) => assert_eq!(&message, words),
        (Value::Null, Value::Null, Err(TextError::TemplateRender { .. })) => {}
        (_, _, result) => panic!("{name}: {render}: {result:?}"),
    }
}
