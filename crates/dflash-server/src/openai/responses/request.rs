use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::input::messages;
use super::namespace;
use crate::body::Fields;
use crate::openai::common::{check_idle, check_model};
use crate::options::{
    ChatOptions, Extension, Known, OutputFormat, Thinking, ToolChoice, Tools, check_name, max_tokens,
    refuse_known, sampling, stop_strings, template_kwargs,
};
use crate::{ApiError, App};

/// What would change the answer and is not obeyed.
const REFUSED: &[Known] = &[
    Known::never("previous_response_id", "nothing is stored; send the whole conversation as input"),
    Known::never("conversation", "nothing is stored; send the whole conversation as input"),
    Known::never("prompt", "no prompts are stored; send instructions and input"),
    Known::unless_off("background", "the answer comes with this request; use stream"),
    Known::unless_off("store", "nothing is stored; leave it out or send false"),
    Known::unless_off("context_management", "the input is read as it is; shorten it before it is sent"),
    Known::unless_off("top_logprobs", "/v1/chat/completions tells log-probabilities"),
    Known {
        name: "truncation",
        harmless: |value| value == "disabled",
        why: "an input that is too long is refused; shorten it",
    },
    Known {
        name: "include",
        harmless: includes_nothing,
        why: "reasoning comes as plain text anyway, and nothing else can be included",
    },
    Known::never("max_tokens", "its name is max_output_tokens here"),
    Known::never("max_completion_tokens", "its name is max_output_tokens here"),
    Known::unless_off("response_format", "its name is text.format here"),
    Known::unless_off("messages", "their name is input here"),
    Known::unless_off("system", "its name is instructions here"),
    Known::unless_off("stop_sequences", "its name is stop here"),
    Known::unless_off("thinking", "use reasoning.effort and thinking_budget"),
    Known::unless_off("logprobs", "/v1/chat/completions tells log-probabilities"),
    Known::unless_one("n", "a response has one answer; /v1/chat/completions gives several"),
];
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh"];
const SUMMARIES: &[&str] = &["auto", "concise", "detailed"];

/// A body of `/v1/responses` in neutral terms.
///
/// # Errors
/// Whatever is missing, malformed, or not to be had.
pub fn options(app: &App, body: &Fields<'_>) -> Result<ChatOptions, ApiError> {
    check_model(app, body)?;
    check_idle(app, body)?;
    refuse_known(body, &[REFUSED, Known::OF_OTHER_SERVERS])?;
    Ok(ChatOptions {
        tools: tools(body)?,
        output: output(body)?,
        thinking: thinking(body)?,
        template_kwargs: template_kwargs(body)?,
        max_tokens: max_tokens(app, body, &["max_output_tokens"])?,
        sampling: sampling(body, &app.settings.sampling)?,
        stop: stop_strings(body, "stop")?,
        extension: Extension::read(body)?,
        ..ChatOptions::new(app, messages(body)?)
    })
}

/// What a response repeats of its request, defaults filled in.
pub fn echo(body: &Fields<'_>, options: &ChatOptions) -> Map<String, Value> {
    let mut echo = Map::new();
    let mut tell = |name: &str, default: Value| {
        echo.insert(name.to_owned(), body.value(name).cloned().unwrap_or(default));
    };
    for name in [
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    ] {
        tell(name, Value::Null);
    }
    tell("metadata", json!({}));
    tell("parallel_tool_calls", true.into());
    tell("reasoning", json!({"effort": null, "summary": null}));
    tell("service_tier", "default".into());
    tell("temperature", options.sampling.temperature.into());
    tell("text", json!({"format": {"type": "text"}}));
    tell("tool_choice", "auto".into());
    tell("tools", json!([]));
    tell("top_p", options.sampling.top_p.into());
    for (name, value) in [
        ("background", false.into()),
        ("previous_response_id", Value::Null),
        ("store", false.into()),
        ("top_logprobs", 0.into()),
        ("truncation", "disabled".into()),
    ] {
        echo.insert(name.to_owned(), value);
    }
    echo
}

/// Tools without the nesting that chat completions have, alone or in groups.
fn tools(body: &Fields<'_>) -> Result<Tools, ApiError> {
    let (mut names, mut groups) = (HashSet::new(), HashSet::new());
    let mut list = Vec::new();
    for tool in body.objects("tools")?.unwrap_or_default() {
        match tool.required_string("type")? {
            "namespace" => list.extend(namespace::functions(&tool, &mut groups)?),
            _ => list.push(function(&tool, &mut names)?),
        }
    }
    let choice = ToolChoice::of_openai(body)?.unwrap_or_default();
    let one_call = !body.boolean("parallel_tool_calls")?.unwrap_or(true);
    let tools = Tools { list, choice, one_call }.checked()?;
    let mut seen = HashSet::new();
    if let Some(twice) = tools.names().find(|name| !seen.insert(*name)) {
        return Err(ApiError::invalid("tools", format!("tools has {twice:?} twice: names are unique")));
    }
    Ok(tools)
}

/// A function as chat completions nest it.
///
/// # Errors
/// Other tools, other nesting, a name that is taken.
pub fn function<'a>(tool: &Fields<'a>, names: &mut HashSet<&'a str>) -> Result<Value, ApiError> {
    let kind = tool.required_string("type")?;
    if kind != "function" {
        return Err(tool.refused(
            "type",
            format!("nothing runs {kind} here; send functions, and turn {kind} off in the client"),
        ));
    }
    if tool.has("function") {
        return Err(tool.refused("function", "name and parameters stand in the tool itself here"));
    }
    check_name(tool, names)?;
    tool.string("description")?;
    tool.object("parameters")?;
    tool.boolean("strict")?;
    let known = ["name", "description", "parameters", "strict"];
    let function: Map<String, Value> =
        known.iter().filter_map(|&name| Some((name.to_owned(), tool.value(name)?.clone()))).collect();
    Ok(json!({"type": "function", "function": function}))
}

/// `text.format`
fn output(body: &Fields<'_>) -> Result<OutputFormat, ApiError> {
    let Some(text) = body.object("text")? else { return Ok(OutputFormat::Text) };
    if text.word("verbosity", &["low", "medium", "high"])?.is_some_and(|word| word != "medium") {
        return Err(text.refused("verbosity", "ask for it in the instructions"));
    }
    match text.object("format")? {
        Some(format) => OutputFormat::read(&format, |format| Ok(format.clone())),
        None => Ok(OutputFormat::Text),
    }
}

/// `reasoning.effort`, and the fields of our own that chat completions take too. A summary is the text itself.
fn thinking(body: &Fields<'_>) -> Result<Thinking, ApiError> {
    let thinking = Thinking::of_openai(body)?;
    let Some(reasoning) = body.object("reasoning")? else { return Ok(thinking) };
    reasoning.word("summary", SUMMARIES)?;
    reasoning.word("generate_summary", SUMMARIES)?;
    match reasoning.word("effort", EFFORTS)? {
        Some(effort) => Ok(Thinking { budget: thinking.budget, ..Thinking::of_effort(Some(effort)) }),
        None => Ok(thinking),
    }
}

/// Sealed reasoning is for servers that show none.
fn includes_nothing(include: &Value) -> bool {
    include.as_array().is_some_and(|list| list.iter().all(|what| what == "reasoning.encrypted_content"))
}
