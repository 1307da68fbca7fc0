//! `<function=NAME>` with its `<parameter=KEY>`s: values are text, JSON where their type is no string.

use serde_json::{Map, Value, json};

use crate::GrammarError;
use crate::lark::{Lark, Marker, Text, literal};
use crate::schema::checked;
use crate::tools::{Tool, unusable};

/// What ends a value wherever it stands.
const ENDS: &str = r"<\/parameter>|<parameter=|<\/function>|<\/tool_call>";
/// References that are followed to find a type.
const MOST_STEPS: usize = 8;

/// The expression of one call of `tool`.
pub(crate) fn call(lark: &mut Lark<'_>, tool: &Tool) -> Result<String, GrammarError> {
    let mut parameters = Vec::new();
    for (key, required, schema) in tool.properties() {
        if key.contains(['>', '\n']) {
            return Err(unusable(format!("{key:?} cannot be a parameter of {} in XML", tool.name)));
        }
        let value = value(lark, tool, schema)?;
        parameters.push((format!("{} {value} \"\\n\"", literal(&format!("<parameter={key}>\n"))), required));
    }
    let parameters = lark.sequence(&parameters, "");
    Ok(format!("{} {parameters} \"</function>\"", literal(&format!("<function={}>\n", tool.name))))
}

/// A value, and what closes its parameter.
fn value(lark: &mut Lark<'_>, tool: &Tool, schema: &Value) -> Result<String, GrammarError> {
    const CLOSE: &str = "\n</parameter>";
    let resolved = resolve(&tool.parameters, schema);
    let json_of = |lark: &mut Lark<'_>, schema: &Value| {
        let schema = checked(&with_definitions(schema, &tool.parameters))?;
        Ok(format!("{} {}", lark.rule(&format!("%json {schema}")), literal(CLOSE)))
    };
    match kind(&tool.parameters, schema, 0) {
        Some("integer" | "number" | "boolean") if resolved["type"].is_string() => json_of(lark, resolved),
        Some(kind @ ("integer" | "number" | "boolean")) => json_of(lark, &json!({"type": kind})),
        Some("object" | "array") => json_of(lark, schema),
        _ => text(lark, tool, resolved, CLOSE),
    }
}

fn text(lark: &mut Lark<'_>, tool: &Tool, schema: &Value, close: &str) -> Result<String, GrammarError> {
    let values = match (schema.get("const"), schema["enum"].as_array()) {
        (Some(value), _) => vec![value],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => Vec::new(),
    };
    let values: Vec<String> = values
        .into_iter()
        .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
        .map(|text| literal(&text))
        .collect();
    if !values.is_empty() {
        return Ok(format!("({}) {}", values.join(" | "), literal(close)));
    }
    if let Some(keyword) = ["pattern", "format"].into_iter().find(|keyword| schema.get(*keyword).is_some())
        && tool.strict
    {
        return Err(GrammarError::Keyword {
            keyword: keyword.into(),
            at: format!("a parameter of {}", tool.name),
        });
    }
    let least = schema["minLength"].as_u64().unwrap_or(0);
    let length = match schema["maxLength"].as_u64() {
        Some(most) => format!("{{{least},{most}}}"),
        None if least > 0 => format!("{{{least},}}"),
        None => "*".into(),
    };
    // "null" alone is no string where values are read.
    let null = match schema["type"] == "string" {
        true => r" & ~/\s*[nN][uU][lL][lL]\s*/",
        false => "",
    };
    let pattern = format!("/(?s:.{length})/ & ~/(?s:.*)({ENDS})(?s:.*)/{null}");
    let close = Marker::text(close);
    Ok(lark.text_until(&Text { pattern, empty: least == 0 }, &close))
}

/// The first type of a schema that is not null, as whoever reads the call finds it.
fn kind<'a>(root: &'a Value, schema: &'a Value, steps: usize) -> Option<&'a str> {
    if steps == MOST_STEPS {
        return None;
    }
    let schema = resolve(root, schema);
    let no_null = |name: &&str| *name != "null";
    match &schema["type"] {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(no_null),
        _ => {
            let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
            choices.filter_map(|schema| kind(root, schema, steps + 1)).find(no_null)
        }
    }
}

fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MOST_STEPS {
        let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        let Some(target) = target else { break };
        schema = target;
    }
    schema
}

/// `schema` on its own, with what it may refer to.
fn with_definitions(schema: &Value, root: &Value) -> Value {
    let mut map = schema.as_object().cloned().unwrap_or_else(Map::new);
    for keyword in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(keyword) {
            map.entry(keyword).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(map)
}
