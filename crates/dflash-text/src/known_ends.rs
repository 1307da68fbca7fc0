//! Tokens that end a text or a turn going by their names, in the families this runtime serves.

use crate::control::ControlTokens;

const KNOWN_ENDS: [&str; 11] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    // Gemma 4 hands over to its tools with it, and waits.
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
];

/// Whether a token of this name ends a text or a turn.
pub(crate) fn is_known_end(token: &str) -> bool {
    KNOWN_ENDS.contains(&token)
}

/// Ids of control tokens that are known by name to end a text.
pub(crate) fn known_ends(control: &ControlTokens) -> Vec<u32> {
    KNOWN_ENDS.iter().filter_map(|name| control.id_of(name)).collect()
}

/// The given ids, each once, in order.
pub(crate) fn distinct(ids: impl IntoIterator<Item = Option<u32>>) -> Vec<u32> {
    let mut seen = Vec::new();
    for id in ids.into_iter().flatten() {
        if !seen.contains(&id) {
            seen.push(id);
        }
    }
    seen
}
