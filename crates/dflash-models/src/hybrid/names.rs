/// The canonical name of a tensor or module in HF layout, whatever wraps the text model.
pub(super) fn of_hf(name: &str) -> String {
    const WRAPS: [&str; 4] = ["model.language_model.", "language_model.model.", "language_model.", "model."];
    let body = WRAPS.iter().find_map(|wrap| name.strip_prefix(wrap)).unwrap_or(name);
    let body = body.replace(".switch_mlp.", ".experts.");
    match ["layers.", "embed_tokens", "norm."].iter().any(|part| body.starts_with(part)) {
        true => format!("model.{body}"),
        false => body,
    }
}

/// The canonical name of a tensor of a GGUF file; unknown names stay as they are and end up unused.
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
    let own = match rest {
        "ssm_a" => "linear_attn.A_log",
        "ssm_dt.bias" | "ssm_dt" => "linear_attn.dt_bias",
        _ => {
            let module = module(rest.strip_suffix(".weight")?)?;
            return Some(format!("model.layers.{layer}.{module}.weight"));
        }
    };
    Some(format!("model.layers.{layer}.{own}"))
}

fn module(name: &str) -> Option<&'static str> {
    Some(match name {
        "attn_norm" => "input_layernorm",
        "post_attention_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_qkv" => "linear_attn.in_proj_qkv",
        "attn_gate" => "linear_attn.in_proj_z",
        "ssm_beta" => "linear_attn.in_proj_b",
        "ssm_alpha" => "linear_attn.in_proj_a",
        "ssm_ba" => "linear_attn.in_proj_ba",
        "ssm_in" => "linear_attn.in_proj_qkvz",
        "ssm_conv1d" => "linear_attn.conv1d",
        "ssm_norm" => "linear_attn.norm",
        "ssm_out" => "linear_attn.out_proj",
        _ => return crate::dense::ffn_module(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_are_stripped() {
        for name in ["model.language_model.layers.0.x", "language_model.model.layers.0.x", "model.layers.0.x"]
        {
            assert_eq!(of_hf(name), "model.layers.0.x");
        }
        assert_eq!(of_hf("language_model.lm_head.weight"), "lm_head.weight");
        assert_eq!(of_hf("model.visual.blocks.0.w"), "visual.blocks.0.w");
        assert_eq!(of_hf("mtp.layers.0.w"), "mtp.layers.0.w");
        let experts = of_hf("language_model.model.layers.1.mlp.switch_mlp.up_proj.scales");
        assert_eq!(experts, "model.layers.1.mlp.experts.up_proj.scales");
    }

    #[test]
    fn names_of_a_layer_are_mapped_and_others_kept() {
        assert_eq!(of_gguf("blk.3.ssm_a"), "model.layers.3.linear_attn.A_log");
        assert_eq!(of_gguf("blk.3.ssm_dt.bias"), "model.layers.3.linear_attn.dt_bias");
        assert_eq!(of_gguf("blk.3.ffn_gate_inp.weight"), "model.layers.3.mlp.gate.weight");
        assert_eq!(of_gguf("blk.3.what.weight"), "blk.3.what.weight");
    }
}
