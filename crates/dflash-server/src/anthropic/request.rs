use serde_json::Value;

use super::conversation::messages;
use super::tools::tools;
use crate::body::Fields;
use crate::options::{
    ChatOptions, Extension, Known, OutputFormat, Thinking, max_tokens, refuse_known, sampling, stop_strings,
    template_kwargs,
};
use crate::{ApiError, App, Kind};

/// What would change the answer and is not obeyed.
const REFUSED: &[Known] = &[
    Known::unless_off("mcp_servers", "the server calls no tools; send them in tools"),
    Known {
        name: "context_management",
        harmless: clears_nothing,
        why: "the conversation is read as it is; shorten it before it is sent",
    },
    Known::unless_off("compaction", "the conversation is read as it is; shorten it before it is sent"),
    Known::unless_off("container", "nothing runs here; leave it out"),
    Known::unless_off("thread", "nothing is stored; send the whole conversation"),
    Known::unless_off("fallbacks", "one model is served; leave it out"),
    Known::never("max_completion_tokens", "its name is max_tokens here"),
    Known::never("max_output_tokens", "its name is max_tokens here"),
    Known::unless_off("stop", "its name is stop_sequences here"),
    Known::unless_off("response_format", "its name is output_config.format here"),
    Known::never("reasoning_effort", "its name is output_config.effort here"),
    Known::unless_off("reasoning", "use thinking and output_config.effort"),
    Known::unless_off("enable_thinking", "use thinking"),
    Known::never("thinking_budget", "its name is thinking.budget_tokens here"),
    Known::unless_off("input", "it belongs to /v1/responses; send messages"),
    Known::unless_off("instructions", "their name is system here"),
    Known::unless_off("logprobs", "/v1/chat/completions tells log-probabilities"),
    Known::unless_off("top_logprobs", "/v1/chat/completions tells log-probabilities"),
    Known::unless_one("n", "a message is one answer; /v1/chat/completions gives several"),
];

/// A body of `/v1/messages` in neutral terms.
///
/// # Errors
/// Whatever is missing, malformed, or not to be had.
pub fn options(app: &App, body: &Fields<'_>) -> Result<ChatOptions, ApiError> {
    if !body.has("max_tokens") {
        return Err(body.missing("max_tokens", "a whole number, 1 or more"));
    }
    Ok(ChatOptions {
        max_tokens: max_tokens(app, body, &["max_tokens"])?,
        sampling: sampling(body, &app.settings.sampling)?,
        stop: stop_strings(body, "stop_sequences")?,
        ..prompt_options(app, body)?
    })
}

/// Those that shape the prompt: what `/v1/messages/count_tokens` reads.
///
/// # Errors
/// As [`options`].
pub fn prompt_options(app: &App, body: &Fields<'_>) -> Result<ChatOptions, ApiError> {
    check_model(app, body)?;
    refuse_known(body, &[REFUSED, Known::OF_OTHER_SERVERS])?;
    if let Some(metadata) = body.object("metadata")? {
        metadata.string("user_id")?;
    }
    let (tools, output) = (tools(body)?, output(body)?);
    Ok(ChatOptions {
        tools,
        output,
        thinking: thinking(app, body)?,
        template_kwargs: template_kwargs(body)?,
        extension: Extension::read(body)?,
        ..ChatOptions::new(app, messages(body)?)
    })
}

fn check_model(app: &App, body: &Fields<'_>) -> Result<(), ApiError> {
    match body.string("model")? {
        None | Some("default_model") => Ok(()),
        Some(name) if app.model.answers_to(name) => Ok(()),
        Some(name) => {
            let served = &app.model.id;
            let message = format!(
                "model: {name:?} is not served here: send {served:?}, or let --served-model-name give it that name"
            );
            Err(ApiError::new(Kind::NotFound, message))
        }
    }
}

/// Off, unless the request or the server says so: clients that do not ask for thoughts take the first block for text.
fn thinking(app: &App, body: &Fields<'_>) -> Result<Thinking, ApiError> {
    let config = body.object("output_config")?;
    let effort = match &config {
        Some(config) => config.word("effort", &["low", "medium", "high", "xhigh", "max"])?,
        None => None,
    };
    let mut thinking = Thinking { effort: effort.map(str::to_owned), ..Thinking::default() };
    let Some(wish) = body.object("thinking")? else {
        thinking.enabled = (!app.settings.template_kwargs.contains_key("enable_thinking")).then_some(false);
        return Ok(thinking);
    };
    let kind = wish.word("type", &["enabled", "disabled", "adaptive"])?;
    let kind = kind.ok_or_else(|| wish.missing("type", "one of enabled, disabled, adaptive"))?;
    thinking.enabled = Some(kind != "disabled");
    if kind == "enabled" {
        let budget = wish.whole("budget_tokens", 1..=u64::MAX)?;
        let budget = budget.ok_or_else(|| wish.missing("budget_tokens", "a whole number, 1 or more"))?;
        thinking.budget = Some(usize::try_from(budget).unwrap_or(usize::MAX));
    }
    Ok(thinking)
}

/// `output_config.format`, or `output_format` as it was called before.
fn output(body: &Fields<'_>) -> Result<OutputFormat, ApiError> {
    let format = match body.object("output_config")? {
        Some(config) => config.object("format")?,
        None => None,
    };
    match format.or(body.object("output_format")?) {
        Some(format) => OutputFormat::read(&format, |format| Ok(format.clone())),
        None => Ok(OutputFormat::Text),
    }
}

/// Thoughts of earlier turns may be cleared or not; whoever keeps them all changes nothing.
fn clears_nothing(context: &Value) -> bool {
    let keeps = |edit: &Value| {
        edit["type"].as_str().is_some_and(|kind| kind.starts_with("clear_thinking")) && edit["keep"] == "all"
    };
    match &context["edits"] {
        Value::Null => true,
        Value::Array(edits) => edits.iter().all(keeps),
        _ => false,
    }
}
