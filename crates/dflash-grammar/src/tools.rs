//! The tools of a request, as far as their calls have to fit them.

use serde_json::{Map, Value, json};

use crate::GrammarError;
use crate::schema::{MOST_SCHEMAS, bound, parts, relaxed};

/// Tools of one request, and bytes of a tool's name.
const MOST_TOOLS: usize = 256;
const MOST_NAME: usize = 128;

/// A declared tool.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub name: String,
    /// The schema of its arguments, an object; what cannot be honoured is refused in a strict tool, and left out of any
    /// other, whose schema is advice.
    pub parameters: Value,
    pub strict: bool,
}

impl Tool {
    /// Reads `{"type": "function", "function": {...}}`, and `{"name": ...}` alone.
    pub fn read(tool: &Value) -> Result<Self, GrammarError> {
        let function = if tool["function"].is_object() { &tool["function"] } else { tool };
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let sound = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(sound) {
            return Err(unusable(format!(
                "{name:?} is no name of a tool: up to {MOST_NAME} letters, digits and _ - . : /"
            )));
        }
        let strict = function["strict"] == true;
        let parameters = closed(&function["parameters"], &name)?;
        let parameters = match strict {
            true => parameters,
            false => relaxed(&parameters),
        };
        Ok(Self { name, parameters, strict })
    }

    /// Reads all of them.
    pub fn read_all(tools: &[Value]) -> Result<Vec<Self>, GrammarError> {
        bound("a number of tools", tools.len(), MOST_TOOLS)?;
        let tools = tools.iter().map(Self::read).collect::<Result<Vec<_>, _>>()?;
        let sizes = tools.iter().map(|tool| parts(&tool.parameters)).collect::<Result<Vec<_>, _>>()?;
        bound("the tools' number of schemas", sizes.into_iter().sum(), MOST_SCHEMAS)?;
        Ok(tools)
    }

    /// Its parameters by name, whether they are required, and what they are.
    pub fn properties(&self) -> impl Iterator<Item = (&str, bool, &Value)> {
        let required = self.parameters["required"].as_array();
        let is_required = move |key: &str| required.is_some_and(|list| list.iter().any(|name| name == key));
        let properties = self.parameters["properties"].as_object().into_iter().flatten();
        properties.map(move |(key, schema)| (key.as_str(), is_required(key), schema))
    }
}

pub(crate) fn unusable(reason: String) -> GrammarError {
    GrammarError::Tools { reason }
}

/// The schema of arguments: an object, without properties that are not declared unless it says something of them.
fn closed(parameters: &Value, name: &str) -> Result<Value, GrammarError> {
    let mut map = match parameters {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        _ => return Err(unusable(format!("the parameters of {name} are no JSON schema"))),
    };
    map.insert("type".into(), "object".into());
    let open = ["anyOf", "oneOf", "allOf", "$ref", "additionalProperties", "patternProperties"];
    if !open.iter().any(|keyword| map.contains_key(*keyword)) {
        map.insert("additionalProperties".into(), json!(false));
    }
    Ok(Value::Object(map))
}
