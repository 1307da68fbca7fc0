use serde_json::{Map, Value, json};

use crate::ApiError;
use crate::body::Fields;

/// Variables that the conversation itself decides.
const TAKEN: [&str; 4] = ["messages", "tools", "add_generation_prompt", "documents"];
/// Efforts and whether the model thinks at all.
const EFFORTS: [(&str, bool); 6] =
    [("none", false), ("minimal", true), ("low", true), ("medium", true), ("high", true), ("xhigh", true)];

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thinking {
    /// Whether it does; `None` leaves it to template and server.
    pub enabled: Option<bool>,
    /// For templates that know efforts.
    pub effort: Option<String>,
    /// Ids inside the block of reasoning at most.
    pub budget: Option<usize>,
}

impl Thinking {
    /// `reasoning_effort`, `enable_thinking`, `thinking_budget` and `max_thinking_tokens`.
    ///
    /// # Errors
    /// Another word or type.
    pub fn of_openai(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let of_effort = Self::of_effort(fields.word("reasoning_effort", &EFFORTS.map(|(word, _)| word))?);
        let budget = fields.whole("thinking_budget", 0..=u64::MAX)?;
        let budget = fields.whole("max_thinking_tokens", 0..=u64::MAX)?.or(budget);
        Ok(Self {
            enabled: fields.boolean("enable_thinking")?.or(of_effort.enabled),
            budget: budget.map(|ids| usize::try_from(ids).unwrap_or(usize::MAX)),
            ..of_effort
        })
    }

    /// What an effort means.
    pub fn of_effort(effort: Option<&str>) -> Self {
        let enabled = EFFORTS.iter().find(|(word, _)| Some(*word) == effort).map(|(_, thinks)| *thinks);
        Self { enabled, effort: effort.map(str::to_owned), budget: None }
    }

    /// Writes it where templates look.
    pub fn tell(&self, variables: &mut Map<String, Value>) {
        if let Some(enabled) = self.enabled {
            variables.insert("enable_thinking".to_owned(), json!(enabled));
        }
        if let Some(effort) = &self.effort {
            variables.insert("reasoning_effort".to_owned(), json!(effort));
        }
    }
}

/// `chat_template_kwargs`
///
/// # Errors
/// No object, a variable that is not the request's to set.
pub fn template_kwargs(fields: &Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    let Some(given) = fields.object("chat_template_kwargs")? else { return Ok(Map::new()) };
    match TAKEN.iter().find(|name| given.has(name)) {
        Some(name) => Err(given.refused(name, "the server sets it from the conversation")),
        None => Ok(given.object_itself().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<Thinking, ApiError> {
        Thinking::of_openai(&Fields::at("", value).unwrap())
    }

    #[test]
    fn efforts_and_budgets() {
        let thinking = read(&json!({"reasoning_effort": "none", "thinking_budget": 0})).unwrap();
        assert_eq!((thinking.enabled, thinking.budget), (Some(false), Some(0)));
        let thinking = read(&json!({"reasoning_effort": "low", "enable_thinking": false})).unwrap();
        assert_eq!((thinking.enabled, thinking.effort.as_deref()), (Some(false), Some("low")));
        let mut variables = Map::new();
        thinking.tell(&mut variables);
        assert_eq!(Value::Object(variables), json!({"enable_thinking": false, "reasoning_effort": "low"}));
        assert_eq!(read(&json!({})).unwrap(), Thinking::default());
        for wrong in [json!({"reasoning_effort": "huge"}), json!({"thinking_budget": -1})] {
            assert!(read(&wrong).is_err());
        }
    }

    #[test]
    fn variables_of_the_conversation_are_not_the_requests() {
        let read = |value: &Value| template_kwargs(&Fields::at("", value).unwrap());
        assert_eq!(read(&json!({"chat_template_kwargs": {"a": 1}})).unwrap()["a"], 1);
        let error = read(&json!({"chat_template_kwargs": {"messages": []}})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("chat_template_kwargs.messages"));
        assert!(read(&json!({"chat_template_kwargs": "x"})).is_err());
    }
}
