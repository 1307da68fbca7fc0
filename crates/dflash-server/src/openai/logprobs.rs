use dflash_engine::TokenLogprobs;
use dflash_engine::sampling::Alternative;
use dflash_text::Tokenizer;
use serde_json::{Map, Value, json};

/// Stands for minus infinity, which JSON has not.
const NEVER: f32 = -9999.0;

/// Entries of `logprobs.content` of a chat.
pub fn of_chat(tokenizer: &Tokenizer, told: &[TokenLogprobs]) -> Vec<Value> {
    let entry = |token: &TokenLogprobs| {
        let mut entry = token_entry(tokenizer, &token.chosen);
        entry["top_logprobs"] = token.top.iter().map(|other| token_entry(tokenizer, other)).collect();
        entry
    };
    told.iter().map(entry).collect()
}

fn token_entry(tokenizer: &Tokenizer, token: &Alternative) -> Value {
    let bytes = bytes(tokenizer, token.id);
    json!({"token": String::from_utf8_lossy(bytes), "logprob": finite(token.logprob), "bytes": bytes})
}

/// `logprobs` of a plain completion. Offsets count characters of the tokens' own texts, from `offset` on, which goes
/// past them.
pub fn of_completion(tokenizer: &Tokenizer, told: &[TokenLogprobs], offset: &mut usize) -> Value {
    let text = |id| String::from_utf8_lossy(bytes(tokenizer, id)).into_owned();
    let (mut tokens, mut own, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for TokenLogprobs { chosen, top } in told {
        let token = text(chosen.id);
        offsets.push(*offset);
        *offset += token.chars().count();
        tokens.push(token);
        own.push(finite(chosen.logprob));
        let top = top.iter().map(|other| (text(other.id), json!(finite(other.logprob))));
        tops.push(Value::Object(top.collect::<Map<_, _>>()));
    }
    json!({"tokens": tokens, "token_logprobs": own, "top_logprobs": tops, "text_offset": offsets})
}

fn bytes(tokenizer: &Tokenizer, id: u32) -> &[u8] {
    tokenizer.token_bytes(id).unwrap_or_default()
}

fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { NEVER }
}
