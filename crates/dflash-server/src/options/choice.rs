use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;

/// Which tools an answer must or may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None: the model does not see them.
    None,
    /// One of them, at least.
    Required,
    /// This one.
    Named(String),
}

const TAKES: &str =
    "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";

impl ToolChoice {
    /// `tool_choice` as the OpenAI API writes it.
    ///
    /// # Errors
    /// Another word or type.
    pub fn of_openai(fields: &Fields<'_>) -> Result<Option<Self>, ApiError> {
        let wrong = || fields.wrong("tool_choice", TAKES);
        let word = |word: &str| Self::of_word(word).ok_or_else(wrong);
        match fields.value("tool_choice") {
            None => Ok(None),
            Some(Value::String(given)) => word(given).map(Some),
            Some(Value::Object(_)) => {
                let choice = Fields::at("tool_choice", &fields.object_itself()["tool_choice"])?;
                match choice.required_string("type")? {
                    "function" => Self::of_function(&choice).map(Some),
                    kind @ ("allowed_tools" | "custom") => {
                        let why = format!("the type {kind} is not known here; send the allowed tools alone");
                        Err(fields.refused("tool_choice", why))
                    }
                    kind => word(kind).map(Some),
                }
            }
            Some(_) => Err(wrong()),
        }
    }

    /// The three words that the families share.
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "auto" => Some(Self::Auto),
            "required" => Some(Self::Required),
            _ => None,
        }
    }

    /// Nested as in chat completions, or flat as in responses.
    fn of_function(choice: &Fields<'_>) -> Result<Self, ApiError> {
        let name = match choice.object("function")? {
            Some(function) => function.required_string("name")?,
            None => choice.required_string("name")?,
        };
        Ok(Self::Named(name.to_owned()))
    }
}
