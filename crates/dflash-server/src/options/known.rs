use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;

/// A field that would change the answer and is not obeyed: refused, but for a value that changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// Whether a value changes nothing.
    pub harmless: fn(&Value) -> bool,
    /// Why it is not obeyed, and what to do instead.
    pub why: &'static str,
}

/// Refuses what is known and not obeyed. Unknown fields are nobody's: they are accepted.
///
/// # Errors
/// The first of `known` that is there with a value that would change the answer.
pub fn refuse_known(fields: &Fields<'_>, known: &[&[Known]]) -> Result<(), ApiError> {
    for Known { name, harmless, why } in known.iter().copied().flatten() {
        if fields.value(name).is_some_and(|value| !harmless(value)) {
            return Err(fields.refused(name, why));
        }
    }
    Ok(())
}

impl Known {
    /// A field without any harmless value.
    pub const fn never(name: &'static str, why: &'static str) -> Self {
        Self { name, harmless: |_| false, why }
    }

    /// Harmless when false, 0 or empty.
    pub const fn unless_off(name: &'static str, why: &'static str) -> Self {
        Self { name, harmless: is_off, why }
    }

    /// Harmless when 1.
    pub const fn unless_one(name: &'static str, why: &'static str) -> Self {
        Self { name, harmless: |value| value.as_f64() == Some(1.0), why }
    }

    /// Samplers and decoders of other servers, which clients of theirs may send to any route.
    pub const OF_OTHER_SERVERS: &'static [Self] = &[
        Self::unless_off("xtc_probability", "leave it out; top_p, top_k and min_p cut what is drawn from"),
        Self::unless_off("use_beam_search", "one sequence is decoded; leave it out"),
        Self::unless_one("best_of", "every answer is returned; use n"),
        Self::unless_one("length_penalty", "it belongs to beam search; leave it out"),
        Self::unless_one("typical_p", "use top_p or min_p"),
        Self::unless_one("tfs_z", "use top_p or min_p"),
        Self::unless_off("top_a", "use min_p"),
        Self::unless_off("mirostat", "use temperature and top_p"),
        Self::unless_off("dry_multiplier", "use repetition_penalty"),
        Self::unless_off("dynatemp_range", "use temperature"),
        Self::unless_one("repeat_penalty", "its name is repetition_penalty here"),
        Self::unless_off("min_tokens", "an answer ends where the model ends it; leave it out"),
        Self::unless_off("ignore_eos", "an answer ends where the model ends it; use max_tokens"),
        Self::unless_off("stop_token_ids", "use stop, which takes texts"),
        Self::unless_off("bad_words", "use logit_bias"),
        Self::unless_off("bad_words_ids", "use logit_bias"),
        Self::unless_off("include_stop_str_in_output", "the text ends before a stop string"),
        Self::unless_off("prompt_logprobs", "log-probabilities are told of answers alone"),
        Self::never("guided_json", "use response_format with the type json_schema"),
        Self::never("guided_regex", "use response_format with the type regex"),
        Self::never("guided_choice", "use response_format with the type choice"),
        Self::never("guided_grammar", "use response_format with the type regex or json_schema"),
        Self::never("structured_outputs", "use response_format"),
        Self::never("grammar", "use response_format with the type regex or json_schema"),
        Self::never("json_schema", "use response_format with the type json_schema"),
        Self::unless_off("adapters", "the served pair is used as it is; leave it out"),
        Self::unless_off("lora", "the served pair is used as it is; leave it out"),
        Self::unless_off("kv_transfer_params", "leave it out"),
        Self::never("max_new_tokens", "use max_tokens, or max_output_tokens of /v1/responses"),
        Self::never("n_predict", "use max_tokens, or max_output_tokens of /v1/responses"),
    ];

    /// What only a conversation could mean.
    pub const OF_CHAT: &'static [Self] = &[
        Self::unless_off("functions", "the field is an old one; use tools"),
        Self::never("function_call", "the field is an old one; use tool_choice"),
        Self::never("audio", "answers are text"),
        Self {
            name: "modalities",
            harmless: |value| value.as_array().is_some_and(|list| list.iter().all(|kind| kind == "text")),
            why: "answers are text: leave it out or send [\"text\"]",
        },
        Self::never("web_search_options", "the server searches nothing; give the model a tool"),
        Self { name: "verbosity", harmless: |value| value == "medium", why: "ask for it in a message" },
        Self::unless_off("role_mapping", "the model's own chat template decides how roles are written"),
        Self::never("chat_template", "the server's --chat-template sets it"),
        Self {
            name: "add_generation_prompt",
            harmless: |value| value == true,
            why: "the answer is always the assistant's",
        },
        Self::unless_off("continue_final_message", "use /v1/completions with the text so far"),
        Self::unless_off("echo", "the answer alone is returned"),
        Self::unless_off("documents", "put them into a message"),
        Self::unless_off("system", "send a message of the role system"),
        Self::unless_off("instructions", "send a message of the role system"),
        Self::unless_off("input", "it belongs to /v1/responses; send messages"),
        Self::unless_off("prompt", "it belongs to /v1/completions; send messages"),
        Self::unless_off("stop_sequences", "its name is stop here"),
        Self::never("max_output_tokens", "its name is max_completion_tokens here"),
        Self::unless_off("text", "its name is response_format here"),
        Self::unless_off("output_config", "use response_format and reasoning_effort"),
        Self::unless_off("output_format", "its name is response_format here"),
        Self::unless_off("thinking", "use enable_thinking and thinking_budget"),
        Self::unless_off("reasoning", "use reasoning_effort and thinking_budget"),
    ];

    /// What only a plain completion could mean.
    pub const OF_COMPLETION: &'static [Self] = &[
        Self::unless_off("suffix", "text is continued, not filled in; put both parts into the prompt"),
        Self::unless_off("echo", "the answer alone is returned"),
        Self::unless_off("tools", "they need a conversation: use /v1/chat/completions"),
        Self::unless_off("chat_template_kwargs", "there is no template in it: use /v1/chat/completions"),
        Self::unless_off("enable_thinking", "there is no template in it: use /v1/chat/completions"),
        Self::never("reasoning_effort", "there is no template in it: use /v1/chat/completions"),
        Self::never("thinking_budget", "there is no template in it: use /v1/chat/completions"),
        Self::never("max_thinking_tokens", "there is no template in it: use /v1/chat/completions"),
        Self::unless_off("top_logprobs", "its name is logprobs here, a number"),
        Self::never("messages", "they belong to /v1/chat/completions; send prompt"),
        Self::unless_off("input", "it belongs to /v1/responses; send prompt"),
        Self::unless_off("system", "it needs a conversation: use /v1/chat/completions"),
        Self::unless_off("instructions", "they need a conversation: use /v1/chat/completions"),
        Self::unless_off("stop_sequences", "its name is stop here"),
        Self::never("max_output_tokens", "its name is max_tokens here"),
        Self::unless_off("thinking", "there is no template in it: use /v1/chat/completions"),
        Self::unless_off("reasoning", "there is no template in it: use /v1/chat/completions"),
    ];
}

fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}
