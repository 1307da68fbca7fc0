/// The canonical name of a tensor of a GGUF draft; unknown names stay as they are and end up unused.
pub(super) fn canonical(name: &str) -> String {
    let known = match name {
        "enc.output_norm.weight" => Some("hidden_norm.weight".into()),
        "output_norm.weight" => Some("norm.weight".into()),
        "token_embd.weight" => Some("embed_tokens.weight".into()),
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
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("layers.{layer}.{module}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn names_are_mapped_and_others_kept() {
        assert_eq!(canonical("fc.weight"), "fc.weight");
        assert_eq!(canonical("enc.output_norm.weight"), "hidden_norm.weight");
        assert_eq!(canonical("blk.4.attn_k_norm.weight"), "layers.4.self_attn.k_norm.weight");
        assert_eq!(canonical("blk.4.attn_output.bias"), "layers.4.self_attn.o_proj.bias");
        assert_eq!(canonical("blk.4.attn_sinks.weight"), "blk.4.attn_sinks.weight");
    }
}
