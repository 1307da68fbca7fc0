//! JSON schema, as far as the schemas of these tests go: written from its specification, not from the library.

use fancy_regex::Regex;
use serde_json::Value;

/// What of `value` does not fit `schema`; `root` is what references go into.
pub fn faults(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(root, schema, value, &mut faults);
    faults
}

fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    faults(root, schema, value).is_empty()
}

fn check(root: &Value, schema: &Value, value: &Value, faults: &mut Vec<String>) {
    let Some(map) = schema.as_object() else {
        if *schema == Value::Bool(false) {
            faults.push(format!("nothing fits, not {value}"));
        }
        return;
    };
    for (keyword, wanted) in map {
        if !keyword_fits(root, map, keyword, wanted, value) {
            faults.push(format!("{keyword}: {wanted} against {value}"));
        }
    }
}

fn keyword_fits(
    root: &Value,
    map: &serde_json::Map<String, Value>,
    keyword: &str,
    wanted: &Value,
    value: &Value,
) -> bool {
    let all = |list: &Value, test: &dyn Fn(&Value) -> bool| list.as_array().unwrap().iter().all(test);
    let count = |list: &Value| list.as_array().unwrap().iter().filter(|s| fits(root, s, value)).count();
    let length = wanted.as_u64().unwrap_or(0) as usize;
    match (keyword, value) {
        ("type", _) => match wanted {
            Value::Array(types) => types.iter().any(|one| is(one, value)),
            one => is(one, value),
        },
        ("enum", _) => wanted.as_array().unwrap().iter().any(|one| same(one, value)),
        ("const", _) => same(wanted, value),
        ("anyOf", _) => count(wanted) > 0,
        ("oneOf", _) => count(wanted) == 1,
        ("allOf", _) => all(wanted, &|schema| fits(root, schema, value)),
        ("$ref", _) => fits(root, root.pointer(&wanted.as_str().unwrap()[1..]).unwrap(), value),
        ("required", Value::Object(object)) => all(wanted, &|key| object.contains_key(key.as_str().unwrap())),
        ("minProperties", Value::Object(object)) => object.len() >= length,
        ("maxProperties", Value::Object(object)) => object.len() <= length,
        ("properties" | "additionalProperties" | "patternProperties", Value::Object(object)) => {
            let mut pairs = object.iter();
            pairs.all(|(key, value)| schemas_of(map, keyword, key).iter().all(|s| fits(root, s, value)))
        }
        ("minItems", Value::Array(list)) => list.len() >= length,
        ("maxItems", Value::Array(list)) => list.len() <= length,
        ("prefixItems", Value::Array(list)) => {
            list.iter().zip(wanted.as_array().unwrap()).all(|(item, schema)| fits(root, schema, item))
        }
        ("items", Value::Array(list)) => {
            let before = map.get("prefixItems").map_or(0, |prefix| prefix.as_array().unwrap().len());
            list.iter().skip(before).all(|item| fits(root, wanted, item))
        }
        ("minLength", Value::String(text)) => text.chars().count() >= length,
        ("maxLength", Value::String(text)) => text.chars().count() <= length,
        ("pattern", Value::String(text)) => {
            Regex::new(wanted.as_str().unwrap()).unwrap().is_match(text).unwrap()
        }
        ("format", Value::String(text)) => format_fits(wanted.as_str().unwrap(), text),
        ("minimum", Value::Number(_)) => value.as_f64() >= wanted.as_f64(),
        ("maximum", Value::Number(_)) => value.as_f64() <= wanted.as_f64(),
        ("exclusiveMinimum", Value::Number(_)) => value.as_f64() > wanted.as_f64(),
        ("exclusiveMaximum", Value::Number(_)) => value.as_f64() < wanted.as_f64(),
        ("multipleOf", Value::Number(_)) => {
            let parts = value.as_f64().unwrap() / wanted.as_f64().unwrap();
            (parts - parts.round()).abs() < 1e-6 * parts.abs().max(1.0)
        }
        _ => true,
    }
}

/// What `keyword` says of the value of `key`.
fn schemas_of<'a>(map: &'a serde_json::Map<String, Value>, keyword: &str, key: &str) -> Vec<&'a Value> {
    let named = map.get("properties").and_then(|properties| properties.get(key));
    let patterns = map.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
    let matching: Vec<&Value> = patterns
        .filter(|(pattern, _)| Regex::new(pattern).unwrap().is_match(key).unwrap())
        .map(|(_, schema)| schema)
        .collect();
    match keyword {
        "properties" => named.into_iter().collect(),
        "patternProperties" => matching,
        _ if named.is_none() && matching.is_empty() => vec![&map[keyword]],
        _ => Vec::new(),
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("no type {other}"),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn format_fits(format: &str, text: &str) -> bool {
    let pattern = match format {
        "date" => r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$",
        "time" => r"^\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)$",
        "date-time" => r"^\d{4}-\d\d-\d\d[tT]\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)$",
        "uuid" => r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        "ipv4" => r"^\d{1,3}(\.\d{1,3}){3}$",
        "email" => r"^[^@]+@[^@]+$",
        other => panic!("no format {other}"),
    };
    Regex::new(pattern).unwrap().is_match(text).unwrap()
}
