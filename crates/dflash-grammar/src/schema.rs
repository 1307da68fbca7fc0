//! Which JSON schemas an answer can be held to.

use serde_json::{Map, Value, json};

use crate::GrammarError;

/// Keywords whose values are checked, and what is in them.
const SINGLE: [&str; 3] = ["items", "additionalItems", "additionalProperties"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keywords that would change what fits, and cannot be honoured.
const REFUSED: [&str; 22] = [
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "contains",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "nullable",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "x-guidance",
    "discriminator",
];

/// Formats of strings that are honoured.
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// Bytes of a schema's text.
pub(crate) const MOST_BYTES: usize = 256 * 1024;
/// Schemas in a schema, itself included.
pub(crate) const MOST_SCHEMAS: usize = 2_000;
/// Schemas in each other, over the references between them.
const MOST_DEPTH: usize = 64;
/// Bytes of a regular expression.
pub(crate) const MOST_PATTERN: usize = 1_000;
/// The least common multiple of all numbers that others are to be multiples of, by their digits: a division has as many
/// states.
const MOST_MULTIPLE: u64 = 50_000;
/// Patterns of one object's keys: they are compared in pairs.
const MOST_KEY_PATTERNS: usize = 8;

/// What an answer may have between its tokens: enough to be indented, but nowhere without end, since small models do
/// not find out of it.
const BLANK: &str = r" |\n {0,16}";

/// `schema` as the grammar library takes it.
///
/// # Errors
///
/// Where it has a keyword that cannot be honoured, or is too large.
pub(crate) fn checked(schema: &Value) -> Result<Value, GrammarError> {
    parts(schema)?;
    let mut map = match without(schema, &is_inert) {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        _ => return Err(no_schema("#", "it allows nothing")),
    };
    let options = json!({ "whitespace_flexible": true, "whitespace_pattern": BLANK });
    map.insert("x-guidance".into(), options);
    Ok(Value::Object(map))
}

/// How many schemas `schema` consists of, if it can be honoured.
///
/// # Errors
///
/// Those of [`checked`].
pub(crate) fn parts(schema: &Value) -> Result<usize, GrammarError> {
    bound("a schema's size in bytes", schema.to_string().len(), MOST_BYTES)?;
    let mut walk = Walk { root: schema, schemas: 0, multiple: 1 };
    walk.schema(schema, "#", 0)?;
    Ok(walk.schemas)
}

/// `schema` without what cannot be honoured: for schemas that are advice.
pub(crate) fn relaxed(schema: &Value) -> Value {
    without(schema, &is_beyond)
}

/// `schema` without the keywords that `is_out`; values that are no schemas stay as they are.
fn without(schema: &Value, is_out: &dyn Fn(&str, &Value) -> bool) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let kept = map.iter().filter(|(keyword, value)| !is_out(keyword, value));
    let kept = kept.map(|(keyword, value)| {
        let value = match value {
            Value::Object(map) if MAPS.contains(&keyword.as_str()) => Value::Object(
                map.iter().map(|(key, schema)| (key.clone(), without(schema, is_out))).collect(),
            ),
            Value::Array(list) if LISTS.contains(&keyword.as_str()) || keyword == "items" => {
                Value::Array(list.iter().map(|schema| without(schema, is_out)).collect())
            }
            value if SINGLE.contains(&keyword.as_str()) => without(value, is_out),
            value => value.clone(),
        };
        (keyword.clone(), value)
    });
    Value::Object(kept.collect())
}

/// Whether a keyword says nothing with this value.
fn is_inert(keyword: &str, value: &Value) -> bool {
    ["uniqueItems", "nullable"].contains(&keyword) && *value == Value::Bool(false)
}

/// Whether a keyword cannot be honoured, with regular expressions that look around or back among them.
fn is_beyond(keyword: &str, value: &Value) -> bool {
    let looks = |text: &str| ["(?=", "(?!", "(?<", "\\b", "\\B"].iter().any(|sign| text.contains(sign));
    match (keyword, value) {
        ("pattern", Value::String(text)) => looks(text) || text.len() > MOST_PATTERN,
        ("format", Value::String(name)) => !FORMATS.contains(&name.as_str()),
        ("minProperties" | "maxProperties" | "patternProperties", _) => true,
        _ => REFUSED.contains(&keyword),
    }
}

pub(crate) fn bound(what: &'static str, found: usize, limit: usize) -> Result<(), GrammarError> {
    if found > limit { Err(GrammarError::TooLarge { what, found, limit }) } else { Ok(()) }
}

fn no_schema(at: &str, why: &str) -> GrammarError {
    GrammarError::Schema { reason: format!("{why} (at {at})") }
}

struct Walk<'a> {
    root: &'a Value,
    schemas: usize,
    /// Of all `multipleOf`.
    multiple: u64,
}

impl Walk<'_> {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<(), GrammarError> {
        self.schemas += 1;
        bound("a schema's number of parts", self.schemas, MOST_SCHEMAS)?;
        bound("a schema's nesting", depth, MOST_DEPTH)?;
        let Value::Object(map) = schema else {
            return if schema.is_boolean() {
                Ok(())
            } else {
                Err(no_schema(at, "neither an object nor a boolean"))
            };
        };
        for (keyword, value) in map {
            self.keyword(keyword, value, at, depth + 1)?;
        }
        Ok(())
    }

    fn keyword(&mut self, keyword: &str, value: &Value, at: &str, depth: usize) -> Result<(), GrammarError> {
        let below = || format!("{at}/{keyword}");
        if REFUSED.contains(&keyword) && !is_inert(keyword, value) {
            return Err(GrammarError::Keyword { keyword: keyword.into(), at: at.into() });
        }
        match value {
            Value::Object(map) if MAPS.contains(&keyword) => {
                if keyword == "patternProperties" {
                    bound("a schema's number of patternProperties", map.len(), MOST_KEY_PATTERNS)?;
                }
                map.iter()
                    .try_for_each(|(key, schema)| self.schema(schema, &format!("{}/{key}", below()), depth))
            }
            Value::Array(list) if LISTS.contains(&keyword) || keyword == "items" => {
                let mut list = list.iter().enumerate();
                list.try_for_each(|(index, schema)| {
                    self.schema(schema, &format!("{}/{index}", below()), depth)
                })
            }
            _ if SINGLE.contains(&keyword) => self.schema(value, &below(), depth),
            Value::String(text) if keyword == "pattern" => {
                bound("a pattern's size in bytes", text.len(), MOST_PATTERN)
            }
            Value::String(text) if keyword == "$ref" => self.reference(text, at),
            Value::Number(number) if keyword == "multipleOf" => {
                self.multiple(number.as_f64().unwrap_or(0.0), at)
            }
            _ if MAPS.contains(&keyword) || LISTS.contains(&keyword) => {
                Err(no_schema(&below(), "not of the type that the keyword has"))
            }
            _ => Ok(()),
        }
    }

    fn multiple(&mut self, number: f64, at: &str) -> Result<(), GrammarError> {
        let digits =
            |number: f64| format!("{number:e}").split('e').next().map(|digits| digits.replace('.', ""));
        let digits =
            digits(number).and_then(|digits| digits.parse::<u64>().ok()).filter(|&digits| digits > 0);
        let digits = digits.ok_or_else(|| no_schema(at, "multipleOf takes a number above zero"))?;
        self.multiple = (self.multiple / gcd(self.multiple, digits)).saturating_mul(digits);
        let found = usize::try_from(self.multiple).unwrap_or(usize::MAX);
        bound("a multiple of all multipleOf", found, MOST_MULTIPLE as usize)
    }

    /// Only what the schema itself defines: nothing is fetched.
    fn reference(&self, reference: &str, at: &str) -> Result<(), GrammarError> {
        let pointer = reference.strip_prefix('#').filter(|rest| !rest.contains(['%', '~']));
        match pointer.and_then(|pointer| self.root.pointer(pointer)) {
            Some(_) => Ok(()),
            None => Err(no_schema(at, &format!("the reference {reference:?} is not to a part of it"))),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
