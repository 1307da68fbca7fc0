use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::ApiError;

/// Characters of a wrong value that an error quotes.
const QUOTED: usize = 40;

/// The fields of an object by type. A field that is null counts as absent; one of another type is an error that
/// names it, with the path to it.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    path: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Of a whole body.
    pub fn of(object: &'a Map<String, Value>) -> Self {
        Self { path: String::new(), object }
    }

    /// Of an object at `path`, such as `tools[2]`.
    ///
    /// # Errors
    /// No object.
    pub fn at(path: impl Into<String>, value: &'a Value) -> Result<Self, ApiError> {
        let path = path.into();
        match value {
            Value::Object(object) => Ok(Self { path, object }),
            other => Err(wrong(&path, "an object", other)),
        }
    }

    /// The path of a field from the body on.
    pub fn path(&self, name: impl Display) -> String {
        match self.path.is_empty() {
            true => name.to_string(),
            false => format!("{}.{name}", self.path),
        }
    }

    /// The object itself.
    pub fn object_itself(&self) -> &'a Map<String, Value> {
        self.object
    }

    /// The names of all fields that are there.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.object.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str())
    }

    /// A field as it is.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Whether a field is there.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A string.
    ///
    /// # Errors
    /// Another type.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.read(name, "a string", Value::as_str)
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// Absent or of another type.
    pub fn required_string(&self, name: &str) -> Result<&'a str, ApiError> {
        self.string(name)?.ok_or_else(|| self.missing(name, "a string"))
    }

    /// true or false.
    ///
    /// # Errors
    /// Another type.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// A whole number; `16.0` is one too.
    ///
    /// # Errors
    /// Another type, a fraction, out of range.
    pub fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let takes = match *range.end() {
            u64::MAX => format!("a whole number, {} or more", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        self.read(name, &takes, |value| whole(value).filter(|number| range.contains(number)))
    }

    /// A number.
    ///
    /// # Errors
    /// Another type, out of range.
    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let takes = format!("a number from {} to {}", range.start(), range.end());
        self.number_that(name, &takes, |number| range.contains(&number))
    }

    /// A number by a rule; `takes` says which, as in "a number above 0".
    ///
    /// # Errors
    /// Another type, against the rule.
    pub fn number_that(
        &self,
        name: &str,
        takes: &str,
        rule: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, ApiError> {
        self.read(name, takes, |value| value.as_f64().filter(|&number| rule(number)))
    }

    /// One of several words.
    ///
    /// # Errors
    /// Another type, another word.
    pub fn word(&self, name: &str, words: &[&str]) -> Result<Option<&'a str>, ApiError> {
        let takes = format!("one of {}", words.join(", "));
        self.read(name, &takes, |value| value.as_str().filter(|word| words.contains(word)))
    }

    /// The fields of an object.
    ///
    /// # Errors
    /// Another type.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.value(name).map(|value| Fields::at(self.path(name), value)).transpose()
    }

    /// A list.
    ///
    /// # Errors
    /// Another type.
    pub fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        self.read(name, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A list of objects; errors inside of them name `list[index].field`.
    ///
    /// # Errors
    /// Another type.
    pub fn objects(&self, name: &str) -> Result<Option<Vec<Fields<'a>>>, ApiError> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let at = |(index, item)| Fields::at(format!("{}[{index}]", self.path(name)), item);
        items.iter().enumerate().map(at).collect::<Result<_, _>>().map(Some)
    }

    /// The error of a field that is there and takes something else.
    pub fn wrong(&self, name: &str, takes: &str) -> ApiError {
        wrong(&self.path(name), takes, self.object.get(name).unwrap_or(&Value::Null))
    }

    /// The error of a field that should be there.
    pub fn missing(&self, name: &str, takes: &str) -> ApiError {
        let path = self.path(name);
        ApiError::invalid(path.as_str(), format!("{path} is missing: it takes {takes}"))
    }

    /// The error of a field that is understood and not obeyed; `why` says why and what to do instead.
    pub fn refused(&self, name: &str, why: impl Display) -> ApiError {
        let path = self.path(name);
        ApiError::invalid(path.as_str(), format!("{path} is not supported: {why}"))
            .code("unsupported_parameter")
    }

    fn read<T>(
        &self,
        name: &str,
        takes: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, takes))
    }
}

fn wrong(path: &str, takes: &str, given: &Value) -> ApiError {
    ApiError::invalid(path, format!("{path} takes {takes}, not {}", quoted(given)))
}

fn whole(value: &Value) -> Option<u64> {
    // Exact up to 2^53, which is where floats cease to tell whole numbers apart.
    let from_float = |number: f64| {
        (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(from_float))
}

/// Short values as they are, others by kind.
fn quoted(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(QUOTED) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(value: Value, read: impl Fn(&Fields<'_>) -> Option<ApiError>) -> String {
        let error = read(&Fields::at("", &value).unwrap()).unwrap();
        assert!(error.message.starts_with(error.param.as_deref().unwrap()), "{error:?}");
        error.message
    }

    #[test]
    fn null_is_absent() {
        let value = json!({"a": null});
        let fields = Fields::at("", &value).unwrap();
        assert!(
            !fields.has("a") && fields.string("a").unwrap().is_none() && fields.list("b").unwrap().is_none()
        );
        assert!(fields.required_string("a").is_err());
    }

    #[test]
    fn whole_numbers_and_nothing_else() {
        let whole = |value: Value| {
            let object = json!({"n": value});
            Fields::at("", &object).unwrap().whole("n", 1..=u64::MAX)
        };
        assert_eq!(whole(json!(1)).unwrap(), Some(1));
        assert_eq!(whole(json!(16.0)).unwrap(), Some(16));
        assert_eq!(whole(json!(u64::MAX)).unwrap(), Some(u64::MAX));
        for wrong in [json!(0), json!(-1), json!(1.5), json!("8"), json!(true), json!(1e300), json!([1])] {
            assert!(whole(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_name_the_field_and_what_it_takes() {
        assert_eq!(
            said(json!({"t": "hot"}), |f| f.number("t", 0.0..=2.0).err()),
            "t takes a number from 0 to 2, not \"hot\""
        );
        assert_eq!(
            said(json!({"n": 129}), |f| f.whole("n", 1..=128).err()),
            "n takes a whole number from 1 to 128, not 129"
        );
        assert_eq!(
            said(json!({"w": "c"}), |f| f.word("w", &["a", "b"]).err()),
            "w takes one of a, b, not \"c\""
        );
        assert_eq!(said(json!({"o": [1]}), |f| f.object("o").err()), "o takes an object, not a list");
        let nested = json!({"o": {"s": {}}});
        let error = said(nested, |f| f.object("o").unwrap().unwrap().string("s").err());
        assert_eq!(error, "o.s takes a string, not an object");
        let listed = json!({"l": [{}, {"s": 1}]});
        let error = said(listed, |f| f.objects("l").unwrap().unwrap()[1].string("s").err());
        assert_eq!(error, "l[1].s takes a string, not 1");
        let long = said(json!({"b": "é".repeat(1000)}), |f| f.boolean("b").err());
        assert!(long.ends_with('…') && long.chars().count() < 80, "{long}");
    }
}
