//! Qwen3: norms of every query and key head.

use crate::dense::{self, DenseRules};
use crate::families::Family;

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen3"],
    arch: "qwen3",
    hf: |dir, context| dense::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| dense::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: DenseRules = DenseRules {
    family: "qwen3",
    arch: "qwen3",
    qkv_bias: false,
    head_norms: true,
    sliding: true,
    rope_kinds: &["linear", "llama3", "yarn"],
    experts: None,
    gguf_interleaved: false,
};
