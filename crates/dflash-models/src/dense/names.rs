/// The canonical name of a tensor or module in HF layout.
pub(super) fn of_hf(name: &str) -> String {
    name.replace(".switch_mlp.", ".experts.")
}

/// The HF name of a tensor of a dense decoder's GGUF; unknown names stay as they are and end up unused.
pub(super) fn of_gguf(name: &str) -> String {
    let known = match name {
        "token_embd.weight" => Some("model.embed_tokens.weight".into()),
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
        _ => ffn_module(module)?,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{module}.{kind}"))
}

/// The module of a feed-forward part, dense or of experts.
pub(crate) fn ffn_module(name: &str) -> Option<&'static str> {
    Some(match name {
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "ffn_gate_inp" => "mlp.gate",
        "ffn_gate_exps" => "mlp.experts.gate_proj",
        "ffn_up_exps" => "mlp.experts.up_proj",
        "ffn_gate_up_exps" => "mlp.experts.gate_up_proj",
        "ffn_down_exps" => "mlp.experts.down_proj",
        "ffn_gate_inp_shexp" => "mlp.shared_expert_gate",
        "ffn_gate_shexp" => "mlp.shared_expert.gate_proj",
        "ffn_up_shexp" => "mlp.shared_expert.up_proj",
        "ffn_down_shexp" => "mlp.shared_expert.down_proj",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::of_gguf;

    #[test]
    fn names_of_a_layer_are_mapped_and_others_kept() {
        assert_eq!(of_gguf("blk.12.ffn_norm.weight"), "model.layers.12.post_attention_layernorm.weight");
        assert_eq!(of_gguf("blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
        assert_eq!(of_gguf("blk.0.ffn_gate_exps.weight"), "model.layers.0.mlp.experts.gate_proj.weight");
        assert_eq!(of_gguf("blk.0.what.weight"), "blk.0.what.weight");
        assert_eq!(of_gguf("rope_freqs.weight"), "rope_freqs.weight");
    }
}
