use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{ApiError, Kind};

/// Lists and objects inside of each other.
const DEEPEST: usize = 64;

/// Reads a JSON object.
///
/// # Errors
/// Whatever is not exactly one object in valid UTF-8, an object with one key twice, nesting beyond 64 levels.
pub fn parse(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let invalid = |message: String| ApiError::new(Kind::Invalid, message).code("invalid_json");
    let text = std::str::from_utf8(bytes)
        .map_err(|error| invalid(format!("the body is not valid UTF-8 at byte {}", error.valid_up_to())))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Level(0).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value.map_err(|error| invalid(format!("the body is not valid JSON: {error}")))? {
        Value::Object(object) => Ok(object),
        _ => Err(invalid("the body is JSON, but no object: send {\"…\": …}".to_owned())),
    }
}

/// A value inside of so many others.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn below<E: Error>(self) -> Result<Self, E> {
        match self.0 < DEEPEST {
            true => Ok(Self(self.0 + 1)),
            false => Err(E::custom(format!("lists and objects are nested beyond {DEEPEST} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(below)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // Readers differ in which of the two counts: nobody may mean one and get the other.
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} stands twice in one object")));
            }
            let value = entries.next_value_seed(below)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err().message
    }

    #[test]
    fn an_object_keeps_its_order_and_its_numbers() {
        let text = r#"{"b":1,"a":[-2,3.5,18446744073709551615,null,true],"c":{"é":"\u00e9"}}"#;
        let object = parse(text.as_bytes()).unwrap();
        assert_eq!(Value::Object(object).to_string(), text.replace("\\u00e9", "é"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in
            ["", "{", "[]", "3", "null", "\"x\"", "{\"a\":1}x", "{\"a\":NaN}", "{\"a\":1e999}", "{'a':1}"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(said(b"{\"a\": \"\xff\"}"), "the body is not valid UTF-8 at byte 7");
        assert!(parse(br#"{"a": "\ud800"}"#).is_err());
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        assert!(said(br#"{"a":1,"a":1}"#).contains(r#"the key "a" stands twice"#));
        assert!(said(br#"{"x":[{"a":1,"\u0061":2}]}"#).contains(r#"the key "a" stands twice"#));
        assert!(parse(br#"{"a":{"a":1}}"#).is_ok());
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(DEEPEST - 1).as_bytes()).is_ok());
        for levels in [DEEPEST, 500, 1 << 20] {
            assert!(said(nested(levels).as_bytes()).contains("nested beyond 64 levels"), "{levels}");
        }
        assert!(said("{\"a\":".repeat(1 << 20).as_bytes()).contains("nested beyond 64 levels"));
    }
}
