use crate::gguf_names::{GgufNames, PLAIN};

/// The canonical name of a tensor or module in HF layout.
pub(super) fn of_hf(name: &str) -> String {
    const RENAMED: [(&str, &str); 9] = [
        ("model.embedding_norm", "model.norm"),
        (".operator_norm", ".input_layernorm"),
        (".ffn_norm", ".post_attention_layernorm"),
        (".self_attn.out_proj", ".self_attn.o_proj"),
        (".q_layernorm", ".q_norm"),
        (".k_layernorm", ".k_norm"),
        (".feed_forward.w1", ".mlp.gate_proj"),
        (".feed_forward.w2", ".mlp.down_proj"),
        (".feed_forward.w3", ".mlp.up_proj"),
    ];
    RENAMED.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Names of GGUF files.
pub(super) const GGUF: GgufNames = GgufNames {
    outside: &[("token_embd_norm.weight", "norm.weight")],
    modules: &[
        ("shortconv.in_proj", "conv.in_proj"),
        ("shortconv.conv", "conv.conv"),
        ("shortconv.out_proj", "conv.out_proj"),
    ],
    ..PLAIN
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_those_of_other_decoders() {
        assert_eq!(of_hf("model.layers.1.feed_forward.w2.scales"), "model.layers.1.mlp.down_proj.scales");
        assert_eq!(of_hf("model.layers.1.conv.conv.weight"), "model.layers.1.conv.conv.weight");
        assert_eq!(
            of_hf("model.layers.1.self_attn.out_proj.weight"),
            "model.layers.1.self_attn.o_proj.weight"
        );
        assert_eq!(GGUF.canonical("blk.0.shortconv.in_proj.weight"), "model.layers.0.conv.in_proj.weight");
    }
}
