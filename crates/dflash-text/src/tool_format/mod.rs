//! How models write calls of tools.

mod call;
mod gemma;
mod json;
mod lfm2;
mod mistral;
mod qwen_xml;
mod span;
#[cfg(test)]
mod tests;

pub(crate) use call::CallEvent;
pub(crate) use span::{Span, SpanForm, SpanProgress};

/// The form of a model's tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Hermes, Qwen).
    JsonTags,
    /// `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>` (Qwen3-Coder, Qwen3.5).
    QwenXml,
    /// `<|tool_call>call:NAME{key:value}<tool_call|>`.
    Gemma,
    /// `<|python_tag|>{"name": …, "parameters": {…}}`, or that object alone at the start of the answer.
    Llama,
    /// `<|tool_call_start|>[f(a=1)]<|tool_call_end|>`.
    Lfm2,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]NAME[ARGS]{…}`.
    Mistral,
    /// A JSON object or list at the start of the answer or in a fence, for templates that show tools and name no form.
    Json,
}

impl ToolFormat {
    /// The form that a template that shows tools asks the model for, by what the template says.
    pub(crate) fn of_template(source: &str) -> Self {
        let has = |text: &str| source.contains(text);
        let rules = [
            (has("<|tool_call>") && has("<tool_call|>"), Self::Gemma),
            (has("<|tool_list_start|>") || has("<|tool_call_start|>"), Self::Lfm2),
            (has("<tool_call>\n<function=") || has("<tool_call>\\n<function="), Self::QwenXml),
            (has("[TOOL_CALLS]"), Self::Mistral),
            (has("<tool_call>"), Self::JsonTags),
            (has("<|python_tag|>") || has("ipython"), Self::Llama),
        ];
        rules.into_iter().find(|(fits, _)| *fits).map_or(Self::Json, |(_, format)| format)
    }

    /// What opens a call.
    fn openers(self) -> &'static [&'static str] {
        match self {
            Self::JsonTags => &["<tool_call>"],
            // The outer tag is often forgotten.
            Self::QwenXml => &["<tool_call>", qwen_xml::FUNCTION],
            Self::Gemma => &["<|tool_call>"],
            Self::Llama => &["<|python_tag|>"],
            Self::Lfm2 => &["<|tool_call_start|>"],
            Self::Mistral => &["[TOOL_CALLS]"],
            Self::Json => &["```json"],
        }
    }

    /// What closes it, where something does.
    fn closer(self) -> Option<&'static str> {
        match self {
            Self::JsonTags | Self::QwenXml => Some("</tool_call>"),
            Self::Gemma => Some("<tool_call|>"),
            Self::Lfm2 => Some("<|tool_call_end|>"),
            Self::Json => Some("```"),
            Self::Llama | Self::Mistral => None,
        }
    }

    /// Signs that open a call without a marker, at the start of the answer.
    fn bare_openers(self) -> &'static str {
        match self {
            Self::Llama => "{",
            Self::Json => "{[",
            _ => "",
        }
    }

    /// Whether a JSON object with keys that calls do not have is something else: the answer may be JSON itself.
    fn is_strict(self) -> bool {
        matches!(self, Self::Llama | Self::Json)
    }

    /// Whether a marker within a call that is not whole ends it; text in JSON and XML may hold one.
    fn is_cut_by_markers(self) -> bool {
        matches!(self, Self::Gemma | Self::Lfm2)
    }

    /// Signs that may stand after a call; more than one closing bracket is a slip of small models.
    fn after(self) -> &'static str {
        match self {
            Self::JsonTags | Self::QwenXml => "],}",
            Self::Gemma => ",",
            Self::Llama => ";",
            Self::Lfm2 | Self::Mistral | Self::Json => "],",
        }
    }
}
