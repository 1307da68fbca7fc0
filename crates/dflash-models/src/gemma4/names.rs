use crate::gguf_names::{GgufNames, PLAIN};
use crate::names::text_name;

/// The canonical name of a tensor or module in HF layout, whatever wraps the text model.
pub(super) fn of_hf(name: &str) -> String {
    text_name(name).replace(".experts.switch_glu.", ".experts.")
}

/// Whether a tensor belongs to what sees or hears.
pub(super) fn is_other_tower(name: &str) -> bool {
    const TOWERS: &[&str] =
        &["vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.", "multi_modal_projector."];
    let name = name.strip_prefix("model.").unwrap_or(name);
    TOWERS.iter().any(|tower| name.starts_with(tower))
}

/// Names of GGUF files.
pub(super) const GGUF: GgufNames = GgufNames {
    outside: &[
        ("per_layer_token_embd.weight", "embed_tokens_per_layer.weight"),
        ("per_layer_model_proj.weight", "per_layer_model_projection.weight"),
        ("per_layer_proj_norm.weight", "per_layer_projection_norm.weight"),
    ],
    tensors: &[
        ("layer_output_scale.weight", "layer_scalar"),
        ("ffn_gate_inp.scale", "router.scale"),
        ("ffn_down_exps.scale", "router.per_expert_scale"),
    ],
    modules: &[
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
        ("post_ffw_norm_1", "post_feedforward_layernorm_1"),
        ("post_ffw_norm_2", "post_feedforward_layernorm_2"),
        ("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
        ("ffn_gate_inp", "router.proj"),
        ("ffn_gate_up_exps", "experts.gate_up_proj"),
        ("ffn_gate_exps", "experts.gate_proj"),
        ("ffn_up_exps", "experts.up_proj"),
        ("ffn_down_exps", "experts.down_proj"),
        ("inp_gate", "per_layer_input_gate"),
        ("proj", "per_layer_projection"),
        ("post_norm", "post_per_layer_input_norm"),
    ],
    ..PLAIN
};
