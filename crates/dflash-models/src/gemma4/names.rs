use crate::checkpoint::Checkpoint;
use crate::tables::TableNames;

/// Module paths of one checkpoint. Toolkits put the text model in different places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    /// Before the names of a text model, with the dot.
    root: &'static str,
    head: &'static str,
    embedding: &'static str,
}

const LAYOUTS: [Names; 3] = [
    Names { root: "model.", embedding: "model.embed_tokens", head: "lm_head" },
    Names { root: "model.language_model.", embedding: "model.language_model.embed_tokens", head: "lm_head" },
    Names {
        root: "language_model.model.",
        embedding: "language_model.model.embed_tokens",
        head: "language_model.lm_head",
    },
];

impl Names {
    /// Those of a checkpoint: of the text model alone, of a multimodal one, or of mlx-lm.
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        let there = |names: &&Self| checkpoint.contains(&format!("{}.weight", names.embedding));
        // Without an embedding, its absence is what the load reports.
        *LAYOUTS.iter().find(there).unwrap_or(&LAYOUTS[0])
    }

    /// A module outside of the layers.
    pub(super) fn module(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    /// A layer, without the dot.
    pub(super) fn layer(&self, index: usize) -> String {
        format!("{}layers.{index}", self.root)
    }

    pub(super) fn tables(&self) -> TableNames<'static> {
        TableNames { embedding: self.embedding, head: self.head }
    }
}

/// Whether a tensor belongs to what sees or hears.
pub(super) fn is_other_tower(name: &str) -> bool {
    const TOWERS: &[&str] =
        &["vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.", "multi_modal_projector."];
    let name = name.strip_prefix("model.").unwrap_or(name);
    TOWERS.iter().any(|tower| name.starts_with(tower))
}

/// The HF name of a tensor of a GGUF; unknown names stay as they are and end up unused.
pub(super) fn canonical(name: &str) -> String {
    let known = match name {
        "token_embd.weight" => Some("model.embed_tokens.weight".into()),
        "output_norm.weight" => Some("model.norm.weight".into()),
        "output.weight" => Some("lm_head.weight".into()),
        "per_layer_token_embd.weight" => Some("model.embed_tokens_per_layer.weight".into()),
        "per_layer_model_proj.weight" => Some("model.per_layer_model_projection.weight".into()),
        "per_layer_proj_norm.weight" => Some("model.per_layer_projection_norm.weight".into()),
        _ => in_layer(name),
    };
    known.unwrap_or_else(|| name.to_owned())
}

fn in_layer(name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let own = match rest {
        "layer_output_scale.weight" => "layer_scalar",
        "ffn_gate_inp.scale" => "router.scale",
        "ffn_down_exps.scale" => "router.per_expert_scale",
        _ => return matrix(layer, rest),
    };
    Some(format!("model.layers.{layer}.{own}"))
}

fn matrix(layer: &str, rest: &str) -> Option<String> {
    let (module, kind) = rest.rsplit_once('.')?;
    let module = match module {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "post_attention_norm" => "post_attention_layernorm",
        "ffn_norm" => "pre_feedforward_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "post_ffw_norm" => "post_feedforward_layernorm",
        "post_ffw_norm_1" => "post_feedforward_layernorm_1",
        "post_ffw_norm_2" => "post_feedforward_layernorm_2",
        "pre_ffw_norm_2" => "pre_feedforward_layernorm_2",
        "ffn_gate_inp" => "router.proj",
        "ffn_gate_up_exps" => "experts.gate_up_proj",
        "ffn_gate_exps" => "experts.gate_proj",
        "ffn_up_exps" => "experts.up_proj",
        "ffn_down_exps" => "experts.down_proj",
        "inp_gate" => "per_layer_input_gate",
        "proj" => "per_layer_projection",
        "post_norm" => "post_per_layer_input_norm",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{module}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gguf_are_mapped_and_others_kept() {
        let cases = [
            ("blk.12.ffn_norm.weight", "model.layers.12.pre_feedforward_layernorm.weight"),
            ("blk.0.layer_output_scale.weight", "model.layers.0.layer_scalar"),
            ("blk.3.ffn_gate_inp.scale", "model.layers.3.router.scale"),
            ("blk.3.ffn_gate_inp.weight", "model.layers.3.router.proj.weight"),
            ("blk.3.ffn_down_exps.scale", "model.layers.3.router.per_expert_scale"),
            ("per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"),
            ("blk.0.ssm_a", "blk.0.ssm_a"),
            ("rope_freqs.weight", "rope_freqs.weight"),
        ];
        cases.iter().for_each(|(gguf, hf)| assert_eq!(canonical(gguf), *hf));
    }

    #[test]
    fn towers_are_known_with_and_without_their_prefix() {
        assert!(is_other_tower("model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max"));
        assert!(is_other_tower("audio_tower.layers.0.norm.weight"));
        assert!(!is_other_tower("model.language_model.embed_tokens.weight"));
        assert!(!is_other_tower("model.layers.0.vision_tower.weight"));
    }
}
