//! Values of a JSON schema as other languages write them.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::GrammarError;
use crate::lark::{Lark, Marker, Text, literal};

/// Levels of types in each other.
const DEEPEST: usize = 64;

/// A language of values.
pub(crate) enum Dialect {
    /// Bare keys, strings between two of a marker, no blanks.
    Gemma(Marker),
    /// Python's literals.
    Python,
}

/// Writes the values of one schema as expressions of a grammar.
pub(crate) struct Values<'a, 'l, 't> {
    pub lark: &'l mut Lark<'t>,
    pub dialect: &'a Dialect,
    /// What references go into.
    pub root: &'a Value,
    /// Refuse what cannot be honoured.
    pub strict: bool,
    rules: HashMap<String, String>,
}

impl<'a, 'l, 't> Values<'a, 'l, 't> {
    pub fn new(lark: &'l mut Lark<'t>, dialect: &'a Dialect, root: &'a Value, strict: bool) -> Self {
        Self { lark, dialect, root, strict, rules: HashMap::new() }
    }

    /// The rule of values that fit `schema`.
    pub fn value(&mut self, schema: &Value, depth: usize) -> Result<String, GrammarError> {
        if depth > DEEPEST {
            return Err(GrammarError::TooLarge { what: "a schema's nesting", found: depth, limit: DEEPEST });
        }
        if let Some(pointer) = schema["$ref"].as_str() {
            return self.reference(pointer, depth);
        }
        if let Some(value) = schema.get("const") {
            return Ok(self.constant(value));
        }
        if let Some(values) = schema["enum"].as_array() {
            let values = values.iter().map(|value| self.constant(value)).collect::<Vec<_>>();
            return Ok(self.lark.rule(&values.join(" | ")));
        }
        if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|keyword| schema[*keyword].as_array()) {
            let choices = choices.iter().map(|schema| self.value(schema, depth + 1));
            let choices = choices.collect::<Result<Vec<_>, _>>()?;
            return Ok(self.lark.rule(&choices.join(" | ")));
        }
        match &schema["type"] {
            Value::String(kind) => self.of_type(kind, schema, depth),
            Value::Array(kinds) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                let kinds =
                    kinds.map(|kind| self.of_type(kind, schema, depth)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.lark.rule(&kinds.join(" | ")))
            }
            _ => self.any(),
        }
    }

    fn reference(&mut self, pointer: &str, depth: usize) -> Result<String, GrammarError> {
        if let Some(rule) = self.rules.get(pointer) {
            return Ok(rule.clone());
        }
        let name = self.lark.name();
        self.rules.insert(pointer.to_owned(), name.clone());
        let schema = self.root.pointer(pointer.strip_prefix('#').unwrap_or_default()).unwrap_or(&Value::Null);
        let rule = self.value(schema, depth + 1)?;
        self.lark.define(&name, &rule);
        Ok(name)
    }

    fn of_type(&mut self, kind: &str, schema: &Value, depth: usize) -> Result<String, GrammarError> {
        match kind {
            "string" => self.string(schema),
            "integer" | "number" => Ok(self.number(kind, schema)),
            "boolean" => {
                let values = [self.constant(&json!(true)), self.constant(&json!(false))];
                Ok(self.lark.rule(&values.join(" | ")))
            }
            "null" => Ok(self.constant(&Value::Null)),
            "array" => self.array(schema, depth),
            "object" => self.object(schema, depth),
            _ => Err(GrammarError::Schema { reason: format!("{kind:?} is no type") }),
        }
    }

    fn number(&mut self, kind: &str, schema: &Value) -> String {
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
        let bounds = bounds.iter().filter_map(|keyword| Some((*keyword, schema.get(keyword)?)));
        let mut number = json!({"x-guidance": {"whitespace_flexible": false}, "type": kind});
        bounds.for_each(|(keyword, value)| number[keyword] = value.clone());
        self.lark.rule(&format!("%json {number}"))
    }

    fn string(&mut self, schema: &Value) -> Result<String, GrammarError> {
        self.refuse(schema, &["pattern", "format"])?;
        let least = schema["minLength"].as_u64().unwrap_or(0);
        let most = schema["maxLength"].as_u64();
        let times = match most {
            Some(most) => format!("{{{least},{most}}}"),
            None => format!("{{{least},}}"),
        };
        let Dialect::Gemma(quote) = self.dialect else {
            let character = r#"([^"\\\n\r\t]|\\["\\nrt])"#;
            return Ok(self.lark.terminal(&format!("/\"{character}{times}\"/")));
        };
        let body = match (least, most) {
            (0, None) => Text::any(),
            _ => Text { pattern: format!("/(?s:.{times})/"), empty: least == 0 },
        };
        let rest = self.lark.text_until(&body, quote);
        Ok(self.lark.rule(&format!("{} {rest}", quote.expression())))
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Result<String, GrammarError> {
        self.refuse(schema, &["prefixItems"])?;
        let item = match schema.get("items") {
            Some(items) => self.value(items, depth + 1)?,
            None => self.any()?,
        };
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let more = match schema["maxItems"].as_u64() {
            Some(0) => return Ok(literal("[]")),
            Some(most) => format!("{{{},{}}}", least.saturating_sub(1), most.max(1) - 1),
            None => format!("{{{},}}", least.saturating_sub(1)),
        };
        let items = format!("{item} ({} {item}){more}", literal(self.comma()));
        let items = if least == 0 { format!("({items})?") } else { items };
        Ok(self.lark.rule(&format!("\"[\" {items} \"]\"")))
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Result<String, GrammarError> {
        self.refuse(schema, &["patternProperties", "minProperties", "maxProperties"])?;
        let open = schema.get("additionalProperties").is_none_or(|more| *more != Value::Bool(false));
        let Some(properties) = schema["properties"].as_object().filter(|map| !(map.is_empty() && open))
        else {
            return match open {
                true => self.any_object(),
                false => Ok(literal("{}")),
            };
        };
        let required = schema["required"].as_array();
        let mut pairs = Vec::new();
        for (key, schema) in properties {
            let value = self.value(schema, depth + 1)?;
            let is_required = required.is_some_and(|list| list.iter().any(|name| name == key));
            pairs.push((format!("{} {value}", self.key(key)), is_required));
        }
        let comma = literal(self.comma());
        let pairs = self.lark.sequence(&pairs, &comma);
        Ok(self.lark.rule(&format!("\"{{\" {pairs} \"}}\"")))
    }

    /// A key in an object, and what is between it and its value.
    fn key(&self, key: &str) -> String {
        match self.dialect {
            Dialect::Gemma(_) if is_bare(key) => literal(&format!("{key}:")),
            Dialect::Gemma(_) => format!("{} \":\"", self.constant(&Value::from(key))),
            Dialect::Python => literal(&format!("{}: ", python_string(key))),
        }
    }

    fn comma(&self) -> &'static str {
        match self.dialect {
            Dialect::Gemma(_) => ",",
            Dialect::Python => ", ",
        }
    }

    /// The expression of one value.
    fn constant(&self, value: &Value) -> String {
        match (self.dialect, value) {
            (Dialect::Gemma(quote), Value::String(text)) => {
                format!("{quote} {} {quote}", literal(text), quote = quote.expression())
            }
            (Dialect::Python, Value::String(text)) => literal(&python_string(text)),
            (Dialect::Python, Value::Bool(true)) => literal("True"),
            (Dialect::Python, Value::Bool(false)) => literal("False"),
            (Dialect::Python, Value::Null) => literal("None"),
            (_, Value::Array(items)) => {
                let items: Vec<String> = items.iter().map(|item| self.constant(item)).collect();
                format!("\"[\" {} \"]\"", items.join(&format!(" {} ", literal(self.comma()))))
            }
            (_, Value::Object(map)) => {
                let pairs =
                    map.iter().map(|(key, value)| format!("{} {}", self.key(key), self.constant(value)));
                let pairs: Vec<String> = pairs.collect();
                format!("\"{{\" {} \"}}\"", pairs.join(&format!(" {} ", literal(self.comma()))))
            }
            (_, value) => literal(&value.to_string()),
        }
    }

    /// Any value.
    fn any(&mut self) -> Result<String, GrammarError> {
        const ANY: &str = "any value";
        if let Some(rule) = self.rules.get(ANY) {
            return Ok(rule.clone());
        }
        let name = self.lark.name();
        self.rules.insert(ANY.into(), name.clone());
        let string = self.string(&Value::Null)?;
        let number = self.number("number", &Value::Null);
        let words = [json!(true), json!(false), Value::Null].map(|word| self.constant(&word));
        let comma = literal(self.comma());
        let list = format!("\"[\" ({name} ({comma} {name})*)? \"]\"");
        let object = self.any_object()?;
        self.lark.define(&name, &[vec![string, number, list, object], words.to_vec()].concat().join(" | "));
        Ok(name)
    }

    fn any_object(&mut self) -> Result<String, GrammarError> {
        const OBJECT: &str = "any object";
        if let Some(rule) = self.rules.get(OBJECT) {
            return Ok(rule.clone());
        }
        let name = self.lark.name();
        self.rules.insert(OBJECT.into(), name.clone());
        let value = self.any()?;
        let key = match self.dialect {
            Dialect::Gemma(_) => self.lark.terminal("/[A-Za-z_][A-Za-z0-9_]*:/"),
            Dialect::Python => format!("{} \": \"", self.string(&Value::Null)?),
        };
        let pair = self.lark.rule(&format!("{key} {value}"));
        let comma = literal(self.comma());
        self.lark.define(&name, &format!("\"{{\" ({pair} ({comma} {pair})*)? \"}}\""));
        Ok(name)
    }

    /// Refuses keywords that this language cannot be held to.
    fn refuse(&self, schema: &Value, keywords: &[&str]) -> Result<(), GrammarError> {
        match keywords.iter().find(|keyword| schema.get(**keyword).is_some()) {
            Some(keyword) if self.strict => {
                Err(GrammarError::Keyword { keyword: (*keyword).into(), at: "a parameter".into() })
            }
            _ => Ok(()),
        }
    }
}

fn is_bare(key: &str) -> bool {
    let first = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `text` as a literal of Python.
fn python_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
