use serde_json::{Value, json};

use crate::generation::Usage;

/// `usage`, with the drafted ids among the details.
pub fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "accepted_prediction_tokens": usage.accepted,
            "rejected_prediction_tokens": usage.drafted - usage.accepted,
            "drafted_tokens": usage.drafted,
            "accepted_tokens": usage.accepted,
        },
    })
}
