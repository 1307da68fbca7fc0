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

/// The canonical name of a tensor of a GGUF file; unknown names stay as they are and end up unused.
pub(super) fn of_gguf(name: &str) -> String {
    let known = match name {
        "token_embd.weight" => Some("model.embed_tokens.weight".into()),
        "token_embd_norm.weight" => Some("model.norm.weight".into()),
        "output_norm.weight" => Some("model.norm.weight".into()),
        "output.weight" => Some("lm_head.weight".into()),
        _ => in_layer(name),
    };
    known.unwrap_or_else(|| name.to_owned())
}

fn in_layer(name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (module, kind) = rest.rsplit_once('.')?;
    let module = match module {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "shortconv.in_proj" => "conv.in_proj",
        "shortconv.conv" => "conv.conv",
        "shortconv.out_proj" => "conv.out_proj",
        _ => crate::dense::ffn_module(module)?,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{module}.{kind}"))
}

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
        assert_eq!(of_gguf("blk.0.shortconv.in_proj.weight"), "model.layers.0.conv.in_proj.weight");
        assert_eq!(of_gguf("blk.0.what.weight"), "blk.0.what.weight");
    }
}
