//! Calls of tools, in the forms that models write them in.

use dflash_text::ToolFormat;

use crate::lark::{Lark, Marker, SOME_TEXT, Text, literal};
use crate::schema::checked;
use crate::tools::{Tool, unusable};
use crate::values::{Dialect, Values};
use crate::{GrammarError, ToolChoice, xml};

/// What a form puts around and between calls.
struct Form {
    /// Opens a span of calls; an answer that begins with one has none where there is no marker.
    open: Option<Marker>,
    /// Between the opening and the first call.
    head: &'static str,
    /// Between calls of one span; `None` where a span holds one call.
    comma: Option<&'static str>,
    /// After the last call of a span.
    tail: String,
    /// Between spans; `None` where there is one.
    between: Option<&'static str>,
    /// Signs that text without calls may not begin with.
    bare: &'static str,
}

/// The expression of an answer with calls of `tools`.
pub(crate) fn answer(
    lark: &mut Lark<'_>,
    format: ToolFormat,
    tools: &[Tool],
    choice: &ToolChoice,
    parallel: bool,
) -> Result<String, GrammarError> {
    let chosen: Vec<&Tool> = match choice {
        ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
    };
    if chosen.is_empty() {
        return Err(match choice {
            ToolChoice::Named(name) => unusable(format!("there is no tool {name:?} to call")),
            _ => unusable("there are none".into()),
        });
    }
    let parallel = parallel && !matches!(choice, ToolChoice::Named(_));
    let named_arguments = format == ToolFormat::Mistral && lark.tokenizer().id_of("[ARGS]").is_some();
    let calls =
        chosen.iter().map(|tool| call(lark, format, named_arguments, tool)).collect::<Result<Vec<_>, _>>()?;
    let call = lark.rule(&calls.join(" | "));
    let form = form(lark, format, named_arguments)?;
    let calls = match form.comma {
        Some(comma) if parallel => format!("{call} ({} {call})*", literal(comma)),
        _ => call.clone(),
    };
    let calls = lark.rule(&format!("{} {calls} {}", literal(form.head), form.tail));
    Ok(match (choice, &form.open) {
        (ToolChoice::Auto, Some(open)) => {
            let opened = lark.text_until(&Text::any(), open);
            let some = lark.terminal(&text_without(open));
            match parallel {
                true => format!("({opened} {calls})* {some}?"),
                false => format!("{opened} {calls} | {some}?"),
            }
        }
        (ToolChoice::Auto, None) => {
            let text = lark.terminal(&format!("/[^{}\\s](?s:.*)/", form.bare));
            let list = list_of(format, &call, parallel);
            format!("{calls} {list} | {text}?")
        }
        (_, open) => {
            let open = open.as_ref().map(Marker::expression).unwrap_or_default();
            let list = list_of(format, &call, parallel);
            match form.between {
                Some(between) if parallel => {
                    let span = lark.rule(&format!("{open} {calls}"));
                    format!("{span} ({} {span})*", literal(between))
                }
                _ => format!("{open} {calls} {list}"),
            }
        }
    })
}

/// The other way to write several calls in plain JSON.
fn list_of(format: ToolFormat, call: &str, parallel: bool) -> String {
    match format {
        ToolFormat::Json if parallel => format!("| \"[\" {call} (\", \" {call})* \"]\""),
        _ => String::new(),
    }
}

fn text_without(marker: &Marker) -> String {
    match marker.first_text() {
        Some(text) => format!("{SOME_TEXT} & ~/(?s:.*){}(?s:.*)/", crate::lark::escaped(text)),
        None => SOME_TEXT.into(),
    }
}

fn form(lark: &Lark<'_>, format: ToolFormat, named_arguments: bool) -> Result<Form, GrammarError> {
    let marker = |text: &str| {
        lark.marker(text).map_err(|error| GrammarError::Vocabulary { reason: error.to_string() })
    };
    let none = Form { open: None, head: "", comma: None, tail: String::new(), between: None, bare: "" };
    let tail = |text: &str, close: &str| {
        Ok::<_, GrammarError>(format!("{} {}", literal(text), marker(close)?.expression()))
    };
    Ok(match format {
        ToolFormat::JsonTags | ToolFormat::QwenXml => Form {
            open: Some(marker("<tool_call>")?),
            head: "\n",
            tail: tail("\n", "</tool_call>")?,
            between: Some("\n"),
            ..none
        },
        ToolFormat::Gemma => Form {
            open: Some(marker("<|tool_call>")?),
            tail: tail("", "<tool_call|>")?,
            between: Some(""),
            ..none
        },
        ToolFormat::Lfm2 => Form {
            open: Some(marker("<|tool_call_start|>")?),
            head: "[",
            comma: Some(", "),
            tail: tail("]", "<|tool_call_end|>")?,
            ..none
        },
        ToolFormat::Mistral if named_arguments => {
            Form { open: Some(marker("[TOOL_CALLS]")?), between: Some(""), ..none }
        }
        ToolFormat::Mistral => Form {
            open: Some(marker("[TOOL_CALLS]")?),
            head: "[",
            comma: Some(", "),
            tail: literal("]"),
            ..none
        },
        ToolFormat::Llama => Form { comma: Some("; "), bare: "{", ..none },
        ToolFormat::Json => Form { bare: "{\\[", ..none },
    })
}

/// The rule of one call of `tool`.
fn call(
    lark: &mut Lark<'_>,
    format: ToolFormat,
    named_arguments: bool,
    tool: &Tool,
) -> Result<String, GrammarError> {
    let name = serde_json::Value::from(tool.name.as_str());
    let json = |key: &str, schema: &str| {
        format!("{} %json {schema} \"}}\"", literal(&format!("{{\"name\": {name}, \"{key}\": ")))
    };
    let expression = match format {
        ToolFormat::JsonTags | ToolFormat::Json => json("arguments", &arguments(tool)?),
        ToolFormat::Llama => json("parameters", &arguments(tool)?),
        ToolFormat::Mistral if named_arguments => {
            let arguments_of = lark.marker("[ARGS]");
            let arguments_of =
                arguments_of.map_err(|error| GrammarError::Vocabulary { reason: error.to_string() })?;
            format!("{} {} %json {}", literal(&tool.name), arguments_of.expression(), arguments(tool)?)
        }
        ToolFormat::Mistral => json("arguments", &arguments(tool)?),
        ToolFormat::QwenXml => xml::call(lark, tool)?,
        ToolFormat::Gemma => {
            let quote = lark.marker("<|\"|>");
            let quote = quote.map_err(|error| GrammarError::Vocabulary { reason: error.to_string() })?;
            let dialect = Dialect::Gemma(quote);
            let mut values = Values::new(lark, &dialect, &tool.parameters, tool.strict);
            let object = values.value(&tool.parameters, 0)?;
            format!("{} {object}", literal(&format!("call:{}", tool.name)))
        }
        ToolFormat::Lfm2 => {
            let mut pairs = Vec::new();
            for (key, required, schema) in tool.properties() {
                if !is_name(key) {
                    return Err(unusable(format!("{key:?} cannot be a keyword argument of {}", tool.name)));
                }
                let mut values = Values::new(lark, &Dialect::Python, &tool.parameters, tool.strict);
                let value = values.value(schema, 0)?;
                pairs.push((format!("{} {value}", literal(&format!("{key}="))), required));
            }
            let pairs = lark.sequence(&pairs, "\", \"");
            format!("{} {pairs} \")\"", literal(&format!("{}(", tool.name)))
        }
    };
    Ok(lark.rule(&expression))
}

fn arguments(tool: &Tool) -> Result<String, GrammarError> {
    Ok(checked(&tool.parameters)?.to_string())
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_')
}
