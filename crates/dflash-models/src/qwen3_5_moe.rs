//! Qwen3.5 and Qwen3.6 with experts.

use crate::families::Family;
use crate::hybrid::{self, HybridRules};

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
    arch: "qwen35moe",
    hf: |dir, context| hybrid::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| hybrid::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: HybridRules =
    HybridRules { family: "qwen3_5_moe", arch: "qwen35moe", fused: false, experts: true, gguf_tiled: true };
