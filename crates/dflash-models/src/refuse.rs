use serde_json::Value;

use crate::ModelError;
use crate::json::Keys;

/// A key that changes the mathematics, and the value with which it does not.
pub(crate) struct Neutral {
    /// Key of the config.
    pub(crate) key: &'static str,
    /// Value that means "not used".
    pub(crate) value: NeutralValue,
}

/// What a key may say without changing anything. `null`, `false`, `[]` and absence always may.
#[derive(Clone, Copy)]
pub(crate) enum NeutralValue {
    /// Nothing else.
    Nothing,
    /// Zero.
    Zero,
    /// One.
    One,
}

/// Shorthand for tables of such keys.
pub(crate) const fn neutral(key: &'static str, value: NeutralValue) -> Neutral {
    Neutral { key, value }
}

/// Fails on the first key of the table whose value is not neutral.
///
/// # Errors
/// [`ModelError::Refused`].
pub(crate) fn refuse(config: &Keys<'_>, table: &[Neutral]) -> Result<(), ModelError> {
    for Neutral { key, value } in table {
        if let Some(found) = config.get(key)
            && !is_neutral(found, *value)
        {
            return Err(config.refused(key, ""));
        }
    }
    Ok(())
}

fn is_neutral(found: &Value, neutral: NeutralValue) -> bool {
    match found {
        Value::Bool(flag) => !flag,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => match neutral {
            NeutralValue::Nothing => false,
            NeutralValue::Zero => number.as_f64() == Some(0.0),
            NeutralValue::One => number.as_f64() == Some(1.0),
        },
        _ => false,
    }
}

/// The only activation with a kernel.
///
/// # Errors
/// [`ModelError::Refused`] naming `hidden_act`.
pub(crate) fn require_silu(config: &Keys<'_>) -> Result<(), ModelError> {
    match config.text("hidden_act")? {
        None | Some("silu" | "swish") => Ok(()),
        Some(_) => Err(config.refused("hidden_act", "silu is")),
    }
}

/// A note on keys that are neither read, nor known to be harmless, nor have been found neutral by [`refuse`].
pub(crate) fn note_unread(config: &Keys<'_>, read: &[&[&str]], neutral: &[&[Neutral]]) -> Option<String> {
    let judged = |key: &str| neutral.iter().any(|table| table.iter().any(|entry| entry.key == key));
    let known =
        |key: &str| read.iter().any(|list| list.contains(&key)) || key.starts_with('_') || judged(key);
    let unread = config.entries().filter(|(key, value)| !value.is_null() && !known(key));
    let names = unread.map(|(key, _)| config.name(key)).collect::<Vec<_>>();
    let file = config.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (!names.is_empty()).then(|| format!("keys of {file} that are not read: {}", names.join(", ")))
}

/// Keys that describe training, storage, sampling or the tokenizer, not the forward pass.
pub(crate) const HARMLESS: &[&str] = &[
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "is_llama_config",
    "max_window_layers",
    "model_name",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "quantization",
    "quantization_config",
    "return_dict",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_sliding_window",
    "vocab_size",
    "hidden_dropout",
    "resid_pdrop",
    "residual_dropout",
];
