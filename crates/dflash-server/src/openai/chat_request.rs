use dflash_engine::sampling::MOST_ALTERNATIVES;

use super::common::{Delivery, check_idle, check_model};
use crate::body::Fields;
use crate::options::{
    ChatOptions, Extension, Known, OutputFormat, Thinking, Tools, answers, max_tokens, refuse_known,
    sampling, stop_strings, template_kwargs,
};
use crate::{ApiError, App};

/// A body of `/v1/chat/completions` as meant.
///
/// # Errors
/// The first field that is wrong, or known and not obeyed.
pub fn read(app: &App, fields: &Fields<'_>) -> Result<(ChatOptions, Delivery), ApiError> {
    check_model(app, fields)?;
    refuse_known(fields, &[Known::OF_CHAT, Known::OF_OTHER_SERVERS])?;
    check_idle(app, fields)?;
    let takes = "a list of messages, as in [{\"role\": \"user\", \"content\": \"Hello\"}]";
    let messages = fields.list("messages")?.ok_or_else(|| fields.missing("messages", takes))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", format!("messages is empty: it takes {takes}")));
    }
    let extension = Extension::read(fields)?;
    let options = ChatOptions {
        tools: Tools::of_openai(fields)?,
        output: OutputFormat::of_openai(fields)?,
        thinking: Thinking::of_openai(fields)?,
        template_kwargs: template_kwargs(fields)?,
        max_tokens: max_tokens(app, fields, &["max_completion_tokens", "max_tokens"])?,
        sampling: sampling(fields, &app.settings.sampling)?,
        stop: stop_strings(fields, "stop")?,
        answers: answers(app, fields)?,
        logprobs: logprobs(fields)?,
        extension,
        ..ChatOptions::new(app, messages.to_vec())
    };
    Ok((options, Delivery::read(fields, extension)?))
}

/// `logprobs` and `top_logprobs`
fn logprobs(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    let top = fields.whole("top_logprobs", 0..=MOST_ALTERNATIVES as u64)?;
    match (fields.boolean("logprobs")?.unwrap_or(false), top) {
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => {
            Err(ApiError::invalid("top_logprobs", "top_logprobs needs logprobs: set that to true too"))
        }
    }
}
