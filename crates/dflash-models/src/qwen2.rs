//! Qwen2 and Qwen2.5: biases on q, k and v.

use crate::dense::{self, DenseRules};
use crate::families::Family;

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["qwen2"],
    arch: "qwen2",
    hf: |dir, context| dense::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| dense::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: DenseRules = DenseRules {
    family: "qwen2",
    arch: "qwen2",
    qkv_bias: true,
    head_norms: false,
    sliding: true,
    rope_kinds: &["linear", "llama3", "yarn"],
    experts: None,
    gguf_interleaved: false,
};
