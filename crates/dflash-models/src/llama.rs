//! Llama 2 and 3, and the many models that are built like them.

use crate::dense::{self, DenseRules};
use crate::families::Family;

/// How it is loaded.
pub(crate) const FAMILY: Family = Family {
    model_types: &["llama"],
    arch: "llama",
    hf: |dir, context| dense::from_hf(&RULES, dir, context),
    gguf: |gguf, vocabulary, context| dense::from_gguf(&RULES, gguf, vocabulary, context),
};

const RULES: DenseRules = DenseRules {
    family: "llama",
    arch: "llama",
    qkv_bias: false,
    head_norms: false,
    sliding: false,
    rope_kinds: &["linear", "llama3"],
    experts: None,
    gguf_interleaved: true,
};
