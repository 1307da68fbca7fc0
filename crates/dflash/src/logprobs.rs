//! Log-probabilities as `--json` prints them.

use dflash_engine::TokenLogprobs;
use dflash_engine::sampling::Alternative;
use serde::Serialize;

use crate::text::TextPipeline;

/// A token that could have stood there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlternativeReport {
    /// Its id.
    pub id: u32,
    /// Its text; U+FFFD where its bytes are no whole characters.
    pub token: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability by the target's own logits; null where that is 0.
    pub logprob: f32,
}

/// A token of the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenReport {
    /// The token.
    #[serde(flatten)]
    pub chosen: AlternativeReport,
    /// The most probable tokens, the best first.
    pub top: Vec<AlternativeReport>,
}

impl TokenReport {
    /// With the texts of the model's tokens.
    pub fn of(text: &TextPipeline, token: &TokenLogprobs) -> Self {
        let report = |other: &Alternative| {
            let bytes = text.tokenizer().token_bytes(other.id).unwrap_or_default().to_vec();
            let token = String::from_utf8_lossy(&bytes).into_owned();
            AlternativeReport { id: other.id, token, bytes, logprob: other.logprob }
        };
        Self { chosen: report(&token.chosen), top: token.top.iter().map(report).collect() }
    }
}
