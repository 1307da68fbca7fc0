use serde_json::Value;

use crate::conversation::Conversation;
use crate::template_habits::TemplateHabits;
use crate::{
    ChatRequest, ChatTemplate, ReasoningMarkers, RenderRequest, Rendered, Segment, TextError, Tokenizer,
    ToolFormat,
};

/// Ids between two boundaries at least, but before the last one: less are read as soon as they are restored.
const CLOSEST: usize = 32;
/// Boundaries of a prompt.
const MOST_BOUNDARIES: usize = 8;

/// How conversations are held with a model: what its template and vocabulary say about system messages, reasoning
/// and tool calls, found once at load.
#[derive(Debug)]
pub struct ChatFormat {
    tokenizer: Tokenizer,
    template: Option<TriedTemplate>,
    /// A template of its own for conversations with tools.
    tool_use: Option<TriedTemplate>,
    reasoning: Option<ReasoningMarkers>,
}

/// A template and what it does.
#[derive(Debug)]
struct TriedTemplate {
    template: ChatTemplate,
    source: String,
    habits: TemplateHabits,
}

impl TriedTemplate {
    fn new(template: ChatTemplate, source: Option<&str>) -> Self {
        let source = source.unwrap_or(template.source()).to_owned();
        Self { habits: TemplateHabits::of(&template), template, source }
    }
}

/// A conversation as the model is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPrompt {
    /// The ids.
    pub ids: Vec<u32>,
    /// Whether the prompt ends within a block of reasoning, so that the answer begins there.
    pub reasoning_open: bool,
    /// Where other prompts may go on otherwise, ascending: before the control token that opens the answer, and wherever
    /// else it stands. Of many, the first and the last ones.
    pub boundaries: Vec<usize>,
}

impl ChatFormat {
    /// Tries `template`. `source` is its text as the model's files have it, if that is at hand.
    pub fn new(tokenizer: &Tokenizer, template: Option<ChatTemplate>, source: Option<&str>) -> Self {
        let template = template.map(|template| TriedTemplate::new(template, source));
        let source = template.as_ref().map(|tried| tried.source.as_str()).or(source).unwrap_or_default();
        let reasoning = ReasoningMarkers::find(tokenizer, source);
        Self { tokenizer: tokenizer.clone(), template, tool_use: None, reasoning }
    }

    /// Takes `template` for conversations with tools; some models have two.
    #[must_use]
    pub fn with_tool_use(self, template: ChatTemplate) -> Self {
        Self { tool_use: Some(TriedTemplate::new(template, None)), ..self }
    }

    /// How the model writes calls.
    pub fn tools(&self) -> ToolFormat {
        match self.tool_use.as_ref().or(self.template.as_ref()) {
            Some(tried) if tried.habits.shows_tools => ToolFormat::of_template(&tried.source),
            // Described in our own words.
            _ => ToolFormat::JsonTags,
        }
    }

    /// How the model marks its reasoning, if it knows how.
    pub fn reasoning(&self) -> Option<&ReasoningMarkers> {
        self.reasoning.as_ref()
    }

    /// Puts a conversation into the form that the template takes, and renders it.
    pub fn prompt(&self, request: &ChatRequest) -> Result<ChatPrompt, TextError> {
        let tool_use = self.tool_use.as_ref().filter(|_| request.has_tools());
        let tried = tool_use.or(self.template.as_ref()).ok_or(TextError::NoChatTemplate)?;
        let TriedTemplate { template, source, habits } = tried;
        let conversation = Conversation { habits: *habits, reasoning: self.reasoning.as_ref(), source };
        let request = conversation.prepare(request)?;
        let rendered = template.render(&request)?;
        let reasoning_open = self.reasoning_open(template, &request, &rendered)?;
        let ids = self.tokenizer.encode_rendered(&rendered)?;
        let boundaries = self.boundaries(&rendered, &ids);
        Ok(ChatPrompt { ids, reasoning_open, boundaries })
    }

    /// The control token that opens the answer opens, or closes, other turns too. What people typed is never one.
    fn boundaries(&self, rendered: &Rendered, ids: &[u32]) -> Vec<usize> {
        let control = |segment: &Segment| match segment {
            Segment::Control(text) => self.tokenizer.id_of(text),
            Segment::Text(_) => None,
        };
        let Some(marker) = rendered.segments().iter().rev().find_map(control) else { return Vec::new() };
        let last = ids.iter().rposition(|&id| id == marker);
        let mut boundaries: Vec<usize> = Vec::new();
        for (at, _) in ids.iter().enumerate().skip(1).filter(|&(_, &id)| id == marker) {
            if Some(at) == last || boundaries.last().is_none_or(|last| last + CLOSEST <= at) {
                boundaries.push(at);
            }
        }
        if boundaries.len() > MOST_BOUNDARIES {
            let spared = boundaries.len() - MOST_BOUNDARIES;
            boundaries.drain(1..=spared);
        }
        boundaries
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
