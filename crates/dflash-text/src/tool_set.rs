//! The tools that a request declares, and the types of their parameters.

use serde_json::Value;

use crate::python_literal;

/// Declared tools by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolSet {
    tools: Vec<(String, Value)>,
}

/// How the text of a parameter becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// Without a type: a list or an object where the text is one, else a string.
    Untyped,
    Text,
    Integer,
    Number,
    Boolean,
    /// A list or an object.
    Nested,
}

impl ToolSet {
    /// Reads `{"type": "function", "function": {...}}`, and `{"name": ...}` alone.
    pub fn new(tools: &[Value]) -> Self {
        let read = |tool: &Value| {
            let function = if tool["function"].is_object() { &tool["function"] } else { tool };
            Some((function["name"].as_str()?.to_owned(), function["parameters"]["properties"].clone()))
        };
        Self { tools: tools.iter().filter_map(read).collect() }
    }

    pub fn declares(&self, name: &str) -> bool {
        self.tools.iter().any(|(known, _)| known == name)
    }

    /// What `tool` declares `parameter` to be; one that it does not know is text.
    pub fn kind(&self, tool: &str, parameter: &str) -> ParameterKind {
        let properties = self.tools.iter().find(|(name, _)| name == tool).map(|(_, properties)| properties);
        match properties.and_then(|properties| properties.get(parameter)) {
            Some(schema) => ParameterKind::of(schema),
            None => ParameterKind::Text,
        }
    }
}

impl ParameterKind {
    fn of(schema: &Value) -> Self {
        type_name(schema).map_or(Self::Untyped, |name| Self::named(&name.to_lowercase()))
    }

    fn named(name: &str) -> Self {
        let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
        match name {
            "boolean" | "bool" | "binary" => Self::Boolean,
            _ if begins(&["int", "uint", "long", "short", "unsigned"]) => Self::Integer,
            _ if begins(&["num", "float", "double"]) => Self::Number,
            _ if begins(&["object", "array", "arr", "dict", "list"]) => Self::Nested,
            _ => Self::Text,
        }
    }

    /// The JSON of a parameter that was written without quotes; `None` when it does not fit.
    pub fn json(self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("null") {
            return Some("null".to_owned());
        }
        match self {
            Self::Text => Some(quoted(text)),
            Self::Boolean => Some(trimmed.eq_ignore_ascii_case("true").to_string()),
            Self::Integer => integer(trimmed),
            Self::Number => integer(trimmed).or_else(|| number(trimmed)),
            Self::Untyped => Some(nested(trimmed).unwrap_or_else(|| quoted(text))),
            Self::Nested => {
                let json = nested(trimmed).or_else(|| python_literal::json_of(trimmed));
                Some(json.unwrap_or_else(|| quoted(text)))
            }
        }
    }

    /// Makes JSON that was written as such fit the declared type, where it can.
    pub fn fitted(self, json: String) -> String {
        match serde_json::from_str(&json) {
            Ok(Value::String(text)) if !matches!(self, Self::Text | Self::Untyped) => {
                self.json(&text).unwrap_or(json)
            }
            Ok(Value::Number(_) | Value::Bool(_)) if self == Self::Text => quoted(&json),
            _ => json,
        }
    }
}

/// The declared type; of several the first that is not null.
fn type_name(schema: &Value) -> Option<&str> {
    let no_null = |name: &&str| *name != "null";
    match &schema["type"] {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(no_null),
        _ => {
            let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
            choices.filter_map(type_name).find(no_null)
        }
    }
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn nested(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() || value.is_array()).then(|| text.to_owned())
}

fn number(text: &str) -> Option<String> {
    serde_json::from_str::<serde_json::Number>(text).ok().map(|_| text.to_owned())
}

/// Whole numbers, however written: `3`, `+3`, `3.0`.
fn integer(text: &str) -> Option<String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unsigned = whole.strip_prefix('-').unwrap_or(whole);
    let is_whole = !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
    let value = unsigned.trim_start_matches('0');
    match (is_whole && fraction.bytes().all(|b| b == b'0'), value) {
        (true, "") => Some("0".to_owned()),
        (true, value) if whole.starts_with('-') => Some(format!("-{value}")),
        (true, value) => Some(value.to_owned()),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(schema: Value) -> ParameterKind {
        let parameters = json!({"type": "object", "properties": {"p": schema}});
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
        ToolSet::new(&[tool]).kind("f", "p")
    }

    #[test]
    fn text_becomes_what_the_schema_says() {
        let json = |name: &str, text: &str| kind(json!({"type": name})).json(text);
        let some = |text: &str| Some(text.to_owned());
        for name in ["string", "str", "text", "varchar", "char", "enum"] {
            assert_eq!(json(name, " 5 "), some("\" 5 \""));
            assert_eq!(json(name, "NULL"), some("null"));
        }
        for name in ["integer", "int32", "uint8", "long", "short", "unsigned int"] {
            assert_eq!(
                (json(name, "7"), json(name, "-07.0"), json(name, "+3")),
                (some("7"), some("-7"), some("3"))
            );
            assert_eq!((json(name, "7.5"), json(name, "x"), json(name, "")), (None, None, None));
        }
        for name in ["number", "float64", "num"] {
            assert_eq!(
                (json(name, "2.0"), json(name, "2.50"), json(name, "1e3")),
                (some("2"), some("2.50"), some("1e3"))
            );
            assert_eq!(json(name, "two"), None);
        }
        for name in ["boolean", "bool", "binary"] {
            assert_eq!((json(name, "True"), json(name, "no")), (some("true"), some("false")));
        }
        for name in ["object", "array", "arr", "dict[str, int]", "list"] {
            assert_eq!(json(name, "{\"a\": 1.0}"), some("{\"a\": 1.0}"), "as written");
            assert_eq!(json(name, "{'a': [True, None]}"), some(r#"{"a": [true, null]}"#));
            assert_eq!(json(name, "a, b"), some("\"a, b\""));
        }
    }

    #[test]
    fn types_are_found_where_schemas_put_them() {
        assert_eq!(kind(json!({"type": ["null", "integer"]})), ParameterKind::Integer);
        assert_eq!(kind(json!({"anyOf": [{"type": "null"}, {"type": "number"}]})), ParameterKind::Number);
        assert_eq!(kind(json!({"description": "d"})), ParameterKind::Untyped);
        assert_eq!(ToolSet::default().kind("f", "p"), ParameterKind::Text);
        assert_eq!(ParameterKind::Untyped.json("[1]"), Some("[1]".into()));
        assert_eq!(ParameterKind::Untyped.json("1"), Some("\"1\"".into()));
    }

    #[test]
    fn json_is_made_to_fit() {
        let fitted = |kind: ParameterKind, json: &str| kind.fitted(json.to_owned());
        assert_eq!(fitted(ParameterKind::Text, "12345"), "\"12345\"");
        assert_eq!(fitted(ParameterKind::Integer, "\"5\""), "5");
        assert_eq!(fitted(ParameterKind::Integer, "\"five\""), "\"five\"");
        assert_eq!(fitted(ParameterKind::Untyped, "\"5\""), "\"5\"");
        assert_eq!(fitted(ParameterKind::Text, "null"), "null");
    }
}
