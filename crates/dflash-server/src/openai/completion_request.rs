use serde_json::Value;

use super::common::{Delivery, check_idle, check_model};
use crate::body::Fields;
use crate::generation::{AnswerFormat, Generation};
use crate::options::{
    Extension, Known, OutputFormat, answers, check_prompt, max_tokens, refuse_known, sampling,
    sampling_params, stop_strings,
};
use crate::{ApiError, App};

/// Alternatives that the old shape tells.
const MOST_LOGPROBS: u64 = 5;
const PROMPT: &str = "a string, a list of strings, a list of token ids, or a list of such lists";

/// A body of `/v1/completions` as meant: one generation for every prompt.
///
/// # Errors
/// The first field that is wrong, or known and not obeyed.
pub fn read(app: &App, fields: &Fields<'_>) -> Result<(Vec<Generation>, Delivery), ApiError> {
    check_model(app, fields)?;
    refuse_known(fields, &[Known::OF_COMPLETION, Known::OF_OTHER_SERVERS])?;
    check_idle(app, fields)?;
    let extension = Extension::read(fields)?;
    let max_tokens = max_tokens(app, fields, &["max_completion_tokens", "max_tokens"])?;
    let sampling = sampling_params(app, sampling(fields, &app.settings.sampling)?)?;
    let stop = stop_strings(fields, "stop")?;
    let answers = answers(app, fields)?;
    let constraint = OutputFormat::of_openai(fields)?.constraint();
    let logprobs = fields.whole("logprobs", 0..=MOST_LOGPROBS)?.map(|count| count as usize);
    let delivery = Delivery::read(fields, extension)?;
    let generation = |prompt: Vec<u32>| Generation {
        max_tokens,
        sampling: sampling.clone(),
        answers,
        logprobs,
        decoding: extension.decoding(app, prompt.len(), max_tokens),
        format: AnswerFormat { stop: stop.clone(), ..AnswerFormat::default() },
        constraint: constraint.clone(),
        thinking_budget: None,
        prompt,
        boundaries: Vec::new(),
        shares: extension.prefix_cache,
    };
    Ok((prompts(app, fields, answers)?.into_iter().map(generation).collect(), delivery))
}

fn prompts(app: &App, fields: &Fields<'_>, answers: u32) -> Result<Vec<Vec<u32>>, ApiError> {
    let given = fields.value("prompt").ok_or_else(|| fields.missing("prompt", PROMPT))?;
    let single = std::slice::from_ref(given);
    let list = match given {
        Value::Array(items) if items.iter().any(|item| !item.is_number()) => items,
        _ => single,
    };
    check_number(app, list.len(), answers)?;
    list.iter().map(|prompt| ids(app, fields, prompt)).collect()
}

/// No more than can wait and work at once.
fn check_number(app: &App, prompts: usize, answers: u32) -> Result<(), ApiError> {
    let options = app.model.engine.options();
    let most = options.max_batch + options.waiting;
    match prompts * answers as usize > most {
        true => {
            let message =
                format!("prompt asks for {} answers at once: at most {most} fit", prompts * answers as usize);
            Err(ApiError::invalid("prompt", message))
        }
        false => Ok(()),
    }
}

/// Text is taken as it is: the model's own control tokens may be written in it.
fn ids(app: &App, fields: &Fields<'_>, prompt: &Value) -> Result<Vec<u32>, ApiError> {
    let wrong = || fields.wrong("prompt", PROMPT);
    let ids = match prompt {
        Value::String(text) => app
            .model
            .tokenizer
            .encode_prompt(text, true)
            .map_err(|error| ApiError::invalid("prompt", error.to_string()))?,
        Value::Array(items) => {
            let id = |item: &Value| item.as_u64().and_then(|id| u32::try_from(id).ok());
            items.iter().map(id).collect::<Option<_>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    check_prompt(app, &ids, "prompt")?;
    Ok(ids)
}
