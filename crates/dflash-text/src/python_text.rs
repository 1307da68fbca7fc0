//! Values written as Python writes them: `str`, `repr` and `json.dumps`.

use minijinja::Value as JinjaValue;
use minijinja::value::ValueKind;
use serde_json::Value;

/// Options of `tojson`, with the defaults of Hugging Face's.
pub(crate) struct JsonStyle {
    pub indent: Option<usize>,
    pub item_separator: String,
    pub key_separator: String,
    pub ensure_ascii: bool,
    pub sort_keys: bool,
}

impl JsonStyle {
    pub fn new(indent: Option<usize>) -> Self {
        let item_separator = if indent.is_some() { "," } else { ", " }.to_owned();
        Self { indent, item_separator, key_separator: ": ".into(), ensure_ascii: false, sort_keys: false }
    }

    /// `json.dumps(value)`.
    pub fn dumps(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, 0, &mut out);
        out
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => *out += &self.quote(text),
            Value::Number(number) => *out += &number_text(number),
            Value::Array(items) => {
                self.group(['[', ']'], items, depth, out, |item, out| self.write(item, depth + 1, out))
            }
            Value::Object(map) => {
                let mut pairs: Vec<_> = map.iter().collect();
                if self.sort_keys {
                    pairs.sort_by_key(|(key, _)| *key);
                }
                self.group(['{', '}'], &pairs, depth, out, |(key, item), out| {
                    *out += &self.quote(key);
                    *out += &self.key_separator;
                    self.write(item, depth + 1, out);
                });
            }
            null_or_bool => *out += &null_or_bool.to_string(),
        }
    }

    fn group<T>(
        &self,
        ends: [char; 2],
        items: &[T],
        depth: usize,
        out: &mut String,
        write: impl Fn(&T, &mut String),
    ) {
        out.push(ends[0]);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                *out += &self.item_separator;
            }
            self.new_line(depth + 1, out);
            write(item, out);
        }
        if !items.is_empty() {
            self.new_line(depth, out);
        }
        out.push(ends[1]);
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(width) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    }

    fn quote(&self, text: &str) -> String {
        let quoted = Value::from(text).to_string();
        if !self.ensure_ascii {
            return quoted;
        }
        let mut units = [0; 2];
        let mut escape = |c: char| match c {
            '\0'..='\x7e' => c.to_string(),
            _ => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        };
        quoted.chars().map(&mut escape).collect()
    }
}

/// What `str(value)` gives, which is also what `{{ value }}` prints.
pub(crate) fn python_str(value: &JinjaValue) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::None => "None".into(),
        ValueKind::Bool => python_bool(value.is_true()).into(),
        ValueKind::Number => python_number(value),
        ValueKind::Seq | ValueKind::Map => match serde_json::to_value(value) {
            Ok(json) => python_repr(&json),
            Err(_) => value.to_string(),
        },
        _ => value.to_string(),
    }
}

fn python_number(value: &JinjaValue) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => python_float(number),
        _ => value.to_string(),
    }
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn python_repr(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(value) => python_bool(*value).into(),
        Value::Number(number) => number_text(number),
        Value::String(text) => repr_string(text),
        Value::Array(items) => format!("[{}]", items.iter().map(python_repr).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, item)| format!("{}: {}", repr_string(key), python_repr(item)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

fn repr_string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escape = |c: char| match c {
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        '\\' => "\\\\".into(),
        c if c == quote => format!("\\{c}"),
        c if c < ' ' || ('\x7f'..'\u{a1}').contains(&c) => format!("\\x{:02x}", c as u32),
        c => c.to_string(),
    };
    let escaped: String = text.chars().map(escape).collect();
    format!("{quote}{escaped}{quote}")
}

fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => python_float(float),
        _ => number.to_string(),
    }
}

/// The shortest decimal that reads back the same, with an exponent where Python has one.
fn python_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let exponent = scientific.split_once('e').and_then(|(digits, e)| Some((digits, e.parse::<i32>().ok()?)));
    match exponent {
        Some((digits, e)) if !(-4..16).contains(&e) => {
            format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
        }
        _ => format!("{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_as_python_dumps_it() {
        let value = json!({"b": [1, 2.0, 1e16, 1e-5, true, null], "a": {"é<>&'\"": "\n\u{1}\u{7f}"}, "e": [], "o": {}});
        assert_eq!(
            JsonStyle::new(None).dumps(&value),
            "{\"b\": [1, 2.0, 1e+16, 1e-05, true, null], \"a\": {\"é<>&'\\\"\": \"\\n\\u0001\u{7f}\"}, \"e\": [], \"o\": {}}"
        );
        assert_eq!(
            JsonStyle::new(Some(2)).dumps(&json!({"a": [1], "b": {}})),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}"
        );
        let ascii = JsonStyle { ensure_ascii: true, sort_keys: true, ..JsonStyle::new(None) };
        assert_eq!(ascii.dumps(&json!({"b": "é😀", "a": 1})), r#"{"a": 1, "b": "\u00e9\ud83d\ude00"}"#);
    }

    #[test]
    fn strings_as_python_prints_them() {
        let text = |value: Value| python_str(&JinjaValue::from(Serde(value)));
        assert_eq!(text(json!(null)), "None");
        assert_eq!(text(json!(true)), "True");
        assert_eq!(text(json!(1.0)), "1.0");
        assert_eq!(text(json!("a'b")), "a'b");
        assert_eq!(text(json!({"k": ["it's", "x\n", false]})), r#"{'k': ["it's", 'x\n', False]}"#);
        assert_eq!(python_str(&JinjaValue::UNDEFINED), "");
    }
}
