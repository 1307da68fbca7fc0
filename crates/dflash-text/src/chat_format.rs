use serde_json::Value;

use crate::conversation::Conversation;
use crate::template_habits::TemplateHabits;
use crate::{
    ChatRequest, ChatTemplate, ReasoningMarkers, RenderRequest, Rendered, TextError, Tokenizer, ToolFormat,
};

/// How conversations are held with a model: what its template and vocabulary say about system messages, reasoning
/// and tool calls, found once at load.
#[derive(Debug)]
pub struct ChatFormat {
    tokenizer: Tokenizer,
    template: Option<(ChatTemplate, TemplateHabits)>,
    source: String,
    tools: ToolFormat,
    reasoning: Option<ReasoningMarkers>,
}

/// A conversation as the model is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPrompt {
    /// The ids.
    pub ids: Vec<u32>,
    /// Whether the prompt ends within a block of reasoning, so that the answer begins there.
    pub reasoning_open: bool,
}

impl ChatFormat {
    /// Tries `template`. `source` is its text as the model's files have it, if that is at hand.
    pub fn new(tokenizer: &Tokenizer, template: Option<ChatTemplate>, source: Option<&str>) -> Self {
        let source = source.or(template.as_ref().map(ChatTemplate::source)).unwrap_or_default().to_owned();
        let template = template.map(|template| {
            let habits = TemplateHabits::of(&template);
            (template, habits)
        });
        let tools = match &template {
            Some((_, habits)) if habits.shows_tools => ToolFormat::of_template(&source),
            // Described in our own words.
            _ => ToolFormat::JsonTags,
        };
        let reasoning = ReasoningMarkers::find(tokenizer, &source);
        Self { tokenizer: tokenizer.clone(), template, source, tools, reasoning }
    }

    /// How the model writes calls.
    pub fn tools(&self) -> ToolFormat {
        self.tools
    }

    /// How the model marks its reasoning, if it knows how.
    pub fn reasoning(&self) -> Option<&ReasoningMarkers> {
        self.reasoning.as_ref()
    }

    /// Puts a conversation into the form that the template takes, and renders it.
    pub fn prompt(&self, request: &ChatRequest) -> Result<ChatPrompt, TextError> {
        let (template, habits) = self.template.as_ref().ok_or(TextError::NoChatTemplate)?;
        let conversation =
            Conversation { habits: *habits, reasoning: self.reasoning.as_ref(), source: &self.source };
        let request = conversation.prepare(request)?;
        let rendered = template.render(&request)?;
        let reasoning_open = self.reasoning_open(template, &request, &rendered)?;
        Ok(ChatPrompt { ids: self.tokenizer.encode_rendered(&rendered)?, reasoning_open })
    }

    /// Markers in what people typed say nothing: then the template is read without them.
    fn reasoning_open(
        &self,
        template: &ChatTemplate,
        request: &RenderRequest,
        rendered: &Rendered,
    ) -> Result<bool, TextError> {
        let Some(markers) = &self.reasoning else { return Ok(false) };
        let typed = request.typed_text();
        if !typed.contains(&markers.open) && !typed.contains(&markers.close) {
            return Ok(markers.left_open(rendered));
        }
        let without = |value: &Value| without(value, markers);
        let messages = request.messages.iter().map(|message| message.map_values(without)).collect();
        let tools = request.tools.iter().map(without).collect();
        let extra = request.extra.iter().map(|(key, value)| (key.clone(), without(value))).collect();
        let request = RenderRequest { messages, tools, extra, ..request.clone() };
        Ok(markers.left_open(&template.render(&request)?))
    }
}

/// `value` with the markers cut out of every string.
fn without(value: &Value, markers: &ReasoningMarkers) -> Value {
    match value {
        Value::String(text) => text.replace(&markers.open, "").replace(&markers.close, "").into(),
        Value::Array(items) => items.iter().map(|item| without(item, markers)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), without(item, markers))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
