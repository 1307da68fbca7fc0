//! What a chat template does with a conversation, found by trying.

use serde_json::{Value, json};

use crate::{ChatTemplate, Message, RenderRequest};

/// What has to be known of a template before a conversation is put into the form it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TemplateHabits {
    /// Whether it shows the model its tools.
    pub shows_tools: bool,
    /// Whether it takes system messages wherever they stand.
    pub late_system: bool,
    /// The key under which it reads the reasoning of earlier answers.
    pub reasoning_key: Option<&'static str>,
}

impl TemplateHabits {
    pub fn of(template: &ChatTemplate) -> Self {
        Self {
            shows_tools: shows_tools(template),
            late_system: takes_late_system(template),
            reasoning_key: reasoning_key(template.source()),
        }
    }
}

fn shows_tools(template: &ChatTemplate) -> bool {
    let name = "tool_on_trial";
    let property = json!({"type": "string", "description": "p"});
    let parameters = json!({"type": "object", "properties": {"p": property}, "required": ["p"]});
    let function = json!({"name": name, "description": "d", "parameters": parameters});
    let tools: Vec<Value> = vec![json!({"type": "function", "function": function})];
    let request = RenderRequest { tools, ..RenderRequest::new(vec![Message::new("user", "a")]) };
    template.render(&request).is_ok_and(|prompt| prompt.to_string().contains(name))
}

fn takes_late_system(template: &ChatTemplate) -> bool {
    let turns = [
        ("system", "first-on-trial"),
        ("user", "second-on-trial"),
        ("system", "third-on-trial"),
        ("assistant", "fourth-on-trial"),
        ("user", "fifth-on-trial"),
        ("system", "sixth-on-trial"),
    ];
    let messages = turns.iter().map(|(role, text)| Message::new(*role, *text)).collect();
    let Ok(prompt) = template.render(&RenderRequest::new(messages)) else { return false };
    let prompt = prompt.to_string();
    let places: Option<Vec<usize>> = turns.iter().map(|(_, text)| prompt.find(text)).collect();
    places.is_some_and(|places| places.is_sorted())
}

fn reasoning_key(source: &str) -> Option<&'static str> {
    let reads = |key: &&str| {
        [format!(".{key}"), format!("'{key}'"), format!("\"{key}\"")].iter().any(|text| source.contains(text))
    };
    ["reasoning_content", "reasoning", "thinking"].into_iter().find(reads)
}
