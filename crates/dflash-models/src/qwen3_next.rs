//! Qwen3-Next and Qwen3-Coder-Next.

use crate::families::Family;
use crate::hybrid::{self, HybridRules};

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen3_next"],
    arch: "qwen3next",
    hf: |dir, context| hybrid::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| hybrid::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: HybridRules =
    HybridRules { family: "qwen3_next", arch: "qwen3next", fused: true, experts: true, gguf_tiled: false };
