use crate::gguf_names::{GgufNames, PLAIN};
use crate::names::text_name;

/// The canonical name of a tensor or module in HF layout, whatever wraps the text model.
pub(super) fn of_hf(name: &str) -> String {
    text_name(name).replace(".switch_mlp.", ".experts.")
}

/// Names of GGUF files.
pub(super) const GGUF: GgufNames = GgufNames {
    tensors: &[
        ("ssm_a", "linear_attn.A_log"),
        ("ssm_dt.bias", "linear_attn.dt_bias"),
        ("ssm_dt", "linear_attn.dt_bias"),
    ],
    modules: &[
        ("post_attention_norm", "post_attention_layernorm"),
        ("attn_qkv", "linear_attn.in_proj_qkv"),
        ("attn_gate", "linear_attn.in_proj_z"),
        ("ssm_beta", "linear_attn.in_proj_b"),
        ("ssm_alpha", "linear_attn.in_proj_a"),
        ("ssm_ba", "linear_attn.in_proj_ba"),
        ("ssm_conv1d", "linear_attn.conv1d"),
        ("ssm_norm", "linear_attn.norm"),
        ("ssm_out", "linear_attn.out_proj"),
    ],
    ..PLAIN
};

/// Whether a tensor belongs to what sees.
pub(super) fn is_vision(name: &str) -> bool {
    ["model.visual.", "visual.", "vision_tower."].iter().any(|tower| name.starts_with(tower))
}

/// Whether a tensor predicts several tokens ahead.
pub(super) fn is_mtp(name: &str) -> bool {
    ["mtp.", "model.mtp."].iter().any(|prefix| name.starts_with(prefix))
}
