use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;

/// Stop strings of a request.
pub const MOST_STOPS: usize = 16;

/// Stop strings from the field `name`: a string or a list of strings.
///
/// # Errors
/// Another type, an empty string, more than [`MOST_STOPS`].
pub fn stop_strings(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let takes = format!("a string or a list of at most {MOST_STOPS} strings, none of them empty");
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let stops = match fields.value(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= MOST_STOPS => items.iter().map(text).collect(),
        Some(value) => text(value).map(|text| vec![text]),
    };
    stops.ok_or_else(|| fields.wrong(name, &takes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Vec<String>, ApiError> {
        stop_strings(&Fields::at("", &json!({"stop": value})).unwrap(), "stop")
    }

    #[test]
    fn a_string_or_a_list_of_them() {
        assert_eq!(read(json!("a b")).unwrap(), ["a b"]);
        assert_eq!(read(json!(["a", "\n"])).unwrap(), ["a", "\n"]);
        assert!(read(json!([])).unwrap().is_empty() && read(json!(null)).unwrap().is_empty());
        for value in [json!(""), json!(["a", ""]), json!([1]), json!(3), json!({}), json!(vec!["x"; 17])] {
            assert_eq!(read(value).unwrap_err().param.as_deref(), Some("stop"));
        }
    }
}
