//! Qwen3 with experts.

use crate::dense::{self, DenseRules};
use crate::families::Family;

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen3_moe"],
    arch: "qwen3moe",
    hf: |dir, context| dense::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| dense::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: DenseRules = DenseRules {
    family: "qwen3_moe",
    arch: "qwen3moe",
    qkv_bias: false,
    head_norms: true,
    sliding: true,
    rope_kinds: &["linear", "llama3", "yarn"],
    experts: Some(false),
    gguf_interleaved: false,
};
