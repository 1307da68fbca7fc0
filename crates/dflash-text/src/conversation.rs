//! A conversation put into the form that a template takes. Nothing of it is dropped.

use serde_json::Value;

use crate::template_habits::TemplateHabits;
use crate::{ChatRequest, Message, ReasoningMarkers, RenderRequest, TextError, plain_tools, wire_message};

/// Under which keys clients send the reasoning of earlier answers.
const REASONING_KEYS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Prepares what the template is given.
pub(crate) struct Conversation<'a> {
    pub habits: TemplateHabits,
    pub reasoning: Option<&'a ReasoningMarkers>,
    /// The template's text.
    pub source: &'a str,
}

impl Conversation<'_> {
    pub fn prepare(&self, request: &ChatRequest) -> Result<RenderRequest, TextError> {
        if request.messages.is_empty() {
            return Err(TextError::InvalidMessage { reason: "messages is empty".to_owned() });
        }
        let messages = request.messages.iter().enumerate().map(|(at, message)| self.message(at, message));
        let mut messages = messages.collect::<Result<Vec<_>, _>>()?;
        wire_message::name_results(&mut messages);
        let mut tools = if request.tools_wanted { request.tools.clone() } else { Vec::new() };
        let mut added = Vec::new();
        if !self.habits.shows_tools {
            messages = plain_tools::in_words(messages);
            if !tools.is_empty() {
                added.push(plain_tools::description(&std::mem::take(&mut tools)));
            }
        }
        added.extend(request.instruction.clone());
        let messages = self.with_system(messages, &added);
        Ok(RenderRequest { tools, extra: request.template_kwargs.clone(), ..RenderRequest::new(messages) })
    }

    fn message(&self, at: usize, value: &Value) -> Result<Message, TextError> {
        let mut message = wire_message::read(value).map_err(|error| match error {
            TextError::InvalidMessage { reason } => {
                TextError::InvalidMessage { reason: format!("messages[{at}]: {reason}") }
            }
            other => other,
        })?;
        if message.role() == "assistant" {
            self.hand_over_reasoning(&mut message);
        }
        Ok(message)
    }

    /// Earlier reasoning goes where the template reads it: under its key, or in the content between markers.
    fn hand_over_reasoning(&self, message: &mut Message) {
        let sent = REASONING_KEYS.iter().find_map(|key| message.text(key)).map(str::to_owned);
        let Some(sent) = sent.filter(|text| !text.is_empty()) else { return };
        let markers = self.reasoning.filter(|markers| self.source.contains(&markers.close));
        match (self.habits.reasoning_key, markers) {
            (Some(key), _) => message.set(key, &sent),
            (None, Some(ReasoningMarkers { open, close })) => {
                let content = message.content().unwrap_or_default();
                let content = format!("{open}\n{sent}\n{close}\n\n{content}");
                message.set("content", &content);
            }
            (None, None) => {}
        }
    }

    /// System messages where the template takes them, with `added` at the end of the first.
    fn with_system(&self, messages: Vec<Message>, added: &[String]) -> Vec<Message> {
        let is_system = |message: &Message| message.role() == "system";
        let (systems, mut rest) = match self.habits.late_system || !messages.iter().skip(1).any(is_system) {
            true => {
                let lead = usize::from(is_system(&messages[0]));
                let mut messages = messages;
                let rest = messages.split_off(lead);
                (messages, rest)
            }
            false => messages.into_iter().partition(is_system),
        };
        let mut systems = systems.into_iter();
        let mut lead = systems.next();
        let more = systems.map(|message| message.content().unwrap_or_default().to_owned());
        for text in more.chain(added.iter().cloned()).filter(|text| !text.is_empty()) {
            lead.get_or_insert_with(|| Message::new("system", "")).append("\n\n", &text);
        }
        rest.splice(0..0, lead);
        rest
    }
}
