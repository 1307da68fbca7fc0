//! The jinja environment that Hugging Face gives to chat templates, rebuilt on minijinja.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};

use crate::limits::{FUEL, KEEP, RECURSION, WIDEST_INDENT, keep, measure, too_much};
use crate::python_text::{JsonStyle, python_str};
use crate::strftime::strftime;

/// The variable that carries the time of a rendering, so that `strftime_now` is the same throughout.
pub(crate) const NOW: &str = "dflash_now";

/// Marks an error as the template's own `raise_exception`.
#[derive(Debug)]
pub(crate) struct Raised(pub String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// An environment without templates.
pub(crate) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(print_like_python);
    env.set_unknown_method_callback(method);
    env.add_filter("tojson", tojson);
    env.add_filter("from_json", from_json);
    env.add_filter("string", |state: &State, value: &Value| printed(state, value));
    env.add_filter(KEEP, keep);
    env.add_test("sequence", |value: &Value| is_iterable(value));
    env.add_test("iterable", |value: &Value| is_iterable(value));
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env
}

/// In Python a string and a mapping are sequences too, and templates are written knowing that.
fn is_iterable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

/// `str(value)`, for values of a sensible size.
fn printed(state: &State, value: &Value) -> Result<String, Error> {
    measure(state, value)?;
    Ok(python_str(value))
}

fn print_like_python(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&printed(state, value)?).map_err(Error::from),
    }
}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = printed(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| now.as_i64()).unwrap_or(0);
    let unknown = || Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot write {format:?}"));
    strftime(format, now).ok_or_else(unknown)
}

fn tojson(state: &State, value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson of an undefined value"));
    }
    measure(state, value)?;
    let indent: Option<usize> = kwargs.get("indent")?;
    if indent.is_some_and(|width| width > WIDEST_INDENT) {
        return Err(too_much("tojson indents too far"));
    }
    let mut style = JsonStyle::new(indent);
    if let Some(separators) = kwargs.get::<Option<Vec<String>>>("separators")? {
        let [item, key] = <[String; 2]>::try_from(separators)
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "tojson takes two separators"))?;
        if item.len().max(key.len()) > WIDEST_INDENT {
            return Err(too_much("a separator of tojson is too long"));
        }
        (style.item_separator, style.key_separator) = (item, key);
    }
    style.ensure_ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    style.sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let json =
        serde_json::to_value(value).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(style.dumps(&json))
}

/// Not in the reference, but some templates hope for it where a tool call's arguments are still a string.
fn from_json(text: &str) -> Result<Value, Error> {
    let json: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("from_json: {e}")))?;
    Ok(Value::from(Serde(json)))
}

/// Python's methods: minijinja's collection and what it lacks.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name) {
        (Some(text), "removeprefix") => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(text.strip_prefix(prefix).unwrap_or(text).into())
        }
        (Some(text), "removesuffix") => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(text.strip_suffix(suffix).unwrap_or(text).into())
        }
        (Some(text), "rsplit") => rsplit(text, args),
        (Some(text), "partition") => {
            let (separator,): (&str,) = from_args(args)?;
            Ok(partition(text.split_once(separator), [text, "", ""], separator))
        }
        (Some(text), "rpartition") => {
            let (separator,): (&str,) = from_args(args)?;
            Ok(partition(text.rsplit_once(separator), ["", "", text], separator))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit): (&str, Option<i64>) = from_args(args)?;
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let pieces = limit.filter(|&limit| limit >= 0).map_or(usize::MAX, |limit| limit as usize + 1);
    let mut parts: Vec<Value> = text.rsplitn(pieces, separator).map(Value::from).collect();
    parts.reverse();
    Ok(parts.into())
}

fn partition(found: Option<(&str, &str)>, whole: [&str; 3], separator: &str) -> Value {
    let [a, b, c] = found.map_or(whole, |(left, right)| [left, separator, right]);
    vec![Value::from(a), Value::from(b), Value::from(c)].into()
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn render(source: &str) -> String {
        let context = context! {
            dflash_now => 0, none_ => Value::from(()), text => "a,b,c", list => vec![1, 2, 3],
            tool => Value::from(Serde(serde_json::json!({"z": 1, "a": "<é>"}))),
        };
        environment().render_str(source, context).unwrap()
    }

    #[test]
    fn values_print_as_in_python() {
        assert_eq!(render("{{ none_ }} {{ true }} {{ undefined_ }} {{ [1, 'x'] }}"), "None True  [1, 'x']");
        assert_eq!(render("{{ none_ | string }}{{ 'a' ~ 1 }}"), "Nonea1");
    }

    #[test]
    fn tojson_is_python_s() {
        assert_eq!(render("{{ tool | tojson }}"), r#"{"z": 1, "a": "<é>"}"#);
        assert_eq!(render("{{ tool | tojson(indent=1) }}"), "{\n \"z\": 1,\n \"a\": \"<é>\"\n}");
        assert_eq!(
            render("{{ tool | tojson(separators=(',', ':'), ensure_ascii=True) }}"),
            r#"{"z":1,"a":"<\u00e9>"}"#
        );
        assert_eq!(render(r#"{{ ('{"a": [1]}' | from_json).a[0] }}"#), "1");
        assert!(environment().render_str("{{ nothing | tojson }}", ()).is_err());
    }

    #[test]
    fn what_templates_rely_on() {
        assert_eq!(render("{% for x in list[::-1] %}{{ x }}{% endfor %}"), "321");
        assert_eq!(
            render("{{ text[1:] }}{{ text[-1] }}{{ list[:-1] | length }}{{ text[:-2] }}"),
            ",b,cc2a,b"
        );
        assert_eq!(
            render("{{ text.split(',')[-1] }}{{ text.split(',', 1)[1] }}{{ text.rsplit(',', 1)[0] }}"),
            "cb,ca,b"
        );
        assert_eq!(
            render("{{ text.removeprefix('a,').removesuffix(',c') }}{{ text.partition(',')[2] }}"),
            "bb,c"
        );
        assert_eq!(
            render("{% for k, v in tool.items() %}{{ k }}{{ v }};{% endfor %}{{ tool.get('q', 'd') }}"),
            "z1;a<é>;d"
        );
        assert_eq!(
            render(
                "{% for x in list %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}"
            ),
            "1"
        );
        assert_eq!(
            render(
                "{% set ns = namespace(n=0) %}{% for x in list %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}"
            ),
            "6"
        );
        assert_eq!(
            render("{% if text is string and text is iterable and tool is mapping %}y{% endif %}"),
            "y"
        );
        assert_eq!(render("{{ strftime_now('%d %b %Y') }}"), "01 Jan 1970");
        assert_eq!(render("a\n  {% if true %}\n  b\n  {%- endif %}\n"), "a\n  b");
        assert_eq!(
            render("{{ tool.missing is defined }}{{ tool.z is defined and tool.z is not none }}"),
            "FalseTrue"
        );
        assert_eq!(
            render(
                "{%- macro down(n) -%}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{%- endmacro -%}{{ down(3) }}"
            ),
            "3210"
        );
        assert_eq!(
            render("{%- macro m(x, y=2) -%}{{ x }}{{ y }}{%- endmacro -%}{{ m(1) ~ m(1, y=3) }}"),
            "1213"
        );
    }
}
