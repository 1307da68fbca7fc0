use dflash_grammar::Constraint;
use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;

/// Choices of a `choice` format.
const MOST_CHOICES: usize = 1024;

/// What an answer's text must be.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum OutputFormat {
    /// Anything.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that fits this schema.
    JsonSchema(Value),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl OutputFormat {
    /// `response_format` of chat completions, with two types of our own: `regex` and `choice`.
    ///
    /// # Errors
    /// Another type, a part that is missing.
    pub fn of_openai(fields: &Fields<'_>) -> Result<Self, ApiError> {
        match fields.object("response_format")? {
            Some(format) => Self::read(&format, |format| {
                let missing = || format.missing("json_schema", "{\"name\": …, \"schema\": {…}}");
                format.object("json_schema")?.ok_or_else(missing)
            }),
            None => Ok(Self::Text),
        }
    }

    /// A format; `schema_place` finds the object that holds `schema`, which families nest differently.
    ///
    /// # Errors
    /// Another type, a part that is missing.
    pub fn read<'a>(
        format: &Fields<'a>,
        schema_place: impl Fn(&Fields<'a>) -> Result<Fields<'a>, ApiError>,
    ) -> Result<Self, ApiError> {
        match format.required_string("type")? {
            "text" => Ok(Self::Text),
            "json_object" => Ok(schema(format)?.unwrap_or(Self::JsonObject)),
            "json_schema" => {
                let place = schema_place(format)?;
                place.string("name")?;
                place.string("description")?;
                place.boolean("strict")?;
                Ok(schema(&place)?.unwrap_or(Self::JsonObject))
            }
            "regex" => Ok(Self::Regex(format.required_string("pattern")?.to_owned())),
            "choice" => choices(format),
            _ => Err(format.wrong("type", "one of text, json_object, json_schema, regex, choice")),
        }
    }

    /// What decoding has to keep to.
    pub fn constraint(&self) -> Option<Constraint> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some(Constraint::JsonObject),
            Self::JsonSchema(schema) => Some(Constraint::JsonSchema(schema.clone())),
            Self::Regex(pattern) => Some(Constraint::Regex(pattern.clone())),
            Self::Choice(texts) => Some(Constraint::Choice(texts.clone())),
        }
    }
}

/// A schema is an object, or `true` for anything.
fn schema(place: &Fields<'_>) -> Result<Option<OutputFormat>, ApiError> {
    match place.value("schema") {
        None | Some(Value::Bool(true)) => Ok(None),
        Some(schema @ Value::Object(_)) => Ok(Some(OutputFormat::JsonSchema(schema.clone()))),
        Some(_) => Err(place.wrong("schema", "a JSON schema, which is an object")),
    }
}

fn choices(format: &Fields<'_>) -> Result<OutputFormat, ApiError> {
    let takes = format!("a list of 1 to {MOST_CHOICES} texts, none of them empty");
    let items = format.list("choices")?.ok_or_else(|| format.missing("choices", &takes))?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let texts: Option<Vec<String>> = items.iter().map(text).collect();
    texts
        .filter(|texts| (1..=MOST_CHOICES).contains(&texts.len()))
        .map(OutputFormat::Choice)
        .ok_or_else(|| format.wrong("choices", &takes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(format: Value) -> Result<OutputFormat, ApiError> {
        OutputFormat::of_openai(&Fields::at("", &json!({"response_format": format})).unwrap())
    }

    #[test]
    fn formats() {
        let schema = json!({"type": "object"});
        for (given, format) in [
            (json!(null), OutputFormat::Text),
            (json!({"type": "text"}), OutputFormat::Text),
            (json!({"type": "json_object"}), OutputFormat::JsonObject),
            (json!({"type": "json_object", "schema": schema}), OutputFormat::JsonSchema(schema.clone())),
            (json!({"type": "json_schema", "json_schema": {"name": "x"}}), OutputFormat::JsonObject),
            (
                json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}}),
                OutputFormat::JsonSchema(schema.clone()),
            ),
            (json!({"type": "regex", "pattern": "a+"}), OutputFormat::Regex("a+".into())),
            (
                json!({"type": "choice", "choices": ["a", "b"]}),
                OutputFormat::Choice(vec!["a".into(), "b".into()]),
            ),
        ] {
            assert_eq!(read(given).unwrap(), format);
        }
    }

    #[test]
    fn what_is_no_format_names_the_field() {
        for (given, param) in [
            (json!("json_object"), "response_format"),
            (json!({}), "response_format.type"),
            (json!({"type": "xml"}), "response_format.type"),
            (json!({"type": "json_schema"}), "response_format.json_schema"),
            (
                json!({"type": "json_schema", "json_schema": {"schema": []}}),
                "response_format.json_schema.schema",
            ),
            (json!({"type": "regex"}), "response_format.pattern"),
            (json!({"type": "choice"}), "response_format.choices"),
            (json!({"type": "choice", "choices": []}), "response_format.choices"),
            (json!({"type": "choice", "choices": ["a", ""]}), "response_format.choices"),
        ] {
            assert_eq!(read(given).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
