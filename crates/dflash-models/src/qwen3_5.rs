//! Qwen3.5 and Qwen3.6.

use crate::families::Family;
use crate::hybrid::{self, HybridRules};

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen3_5", "qwen3_5_text"],
    arch: "qwen35",
    hf: |dir, context| hybrid::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| hybrid::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: HybridRules =
    HybridRules { family: "qwen3_5", arch: "qwen35", fused: false, experts: false, gguf_tiled: true };
