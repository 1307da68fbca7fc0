use crate::gguf_names::{GgufNames, PLAIN};

/// Names of GGUF drafts.
pub(super) const GGUF: GgufNames =
    GgufNames { root: "", outside: &[("enc.output_norm.weight", "hidden_norm.weight")], ..PLAIN };

#[cfg(test)]
mod tests {
    use super::GGUF;

    #[test]
    fn names_are_mapped_and_others_kept() {
        for (name, canonical) in [
            ("fc.weight", "fc.weight"),
            ("enc.output_norm.weight", "hidden_norm.weight"),
            ("blk.4.attn_k_norm.weight", "layers.4.self_attn.k_norm.weight"),
            ("blk.4.attn_output.bias", "layers.4.self_attn.o_proj.bias"),
            ("blk.4.attn_sinks.weight", "blk.4.attn_sinks.weight"),
        ] {
            assert_eq!(GGUF.canonical(name), canonical);
        }
    }
}
