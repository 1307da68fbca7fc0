//! A draft for a target in a directory: unquantised, in the layout of the drafts' authors.

use std::path::Path;

use serde_json::json;

use crate::Outcome;
use crate::fill::Fill;
use crate::models::text_config;
use crate::safetensors::{Stored, power_of_two, write as write_file};
use crate::tokenizer::json as read_json;

const LAYERS: usize = 2;

/// Writes the draft: its layers are as wide as the target's.
pub fn write(target: &Path, dir: &Path) -> Outcome<()> {
    let target = read_json(&target.join("config.json"))?;
    let target = text_config(&target);
    let size =
        |key: &str| target[key].as_u64().map(|size| size as usize).ok_or(format!("the target's {key}"));
    let (hidden, ffn, layers) =
        (size("hidden_size")?, size("intermediate_size")?, size("num_hidden_layers")?);
    let (heads, kv_heads, dim) = (32, 8, 128);
    let taps = [1, layers / 2, layers - 2];
    std::fs::create_dir_all(dir)?;
    let config = json!({
        "architectures": ["DFlashDraftModel"], "block_size": 16, "head_dim": dim, "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": ffn, "max_position_embeddings": 40960,
        "model_type": "qwen3", "num_attention_heads": heads, "num_hidden_layers": LAYERS,
        "num_key_value_heads": kv_heads, "num_target_layers": layers, "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000, "vocab_size": target["vocab_size"],
        "dflash_config": {"mask_token_id": size("vocab_size")? - 1, "target_layer_ids": taps},
    });
    std::fs::write(dir.join("config.json"), serde_json::to_vec_pretty(&config)?)?;
    let matrix = |name: String, rows: usize, cols: usize| Stored {
        name: format!("{name}.weight"),
        dtype: "BF16",
        shape: vec![rows, cols],
        fill: Fill::Signed(power_of_two(0.7 / (cols as f32).sqrt())),
    };
    let gain = |name: String, len: usize| Stored {
        name: format!("{name}.weight"),
        dtype: "BF16",
        shape: vec![len],
        fill: Fill::Bf16(0.5),
    };
    let mut tensors = vec![
        matrix("fc".into(), hidden, taps.len() * hidden),
        gain("hidden_norm".into(), hidden),
        gain("norm".into(), hidden),
    ];
    for layer in 0..LAYERS {
        let name = |own: &str| format!("layers.{layer}.{own}");
        tensors.extend([
            gain(name("input_layernorm"), hidden),
            gain(name("post_attention_layernorm"), hidden),
            gain(name("self_attn.q_norm"), dim),
            gain(name("self_attn.k_norm"), dim),
            matrix(name("self_attn.q_proj"), heads * dim, hidden),
            matrix(name("self_attn.k_proj"), kv_heads * dim, hidden),
            matrix(name("self_attn.v_proj"), kv_heads * dim, hidden),
            matrix(name("self_attn.o_proj"), hidden, heads * dim),
            matrix(name("mlp.gate_proj"), ffn, hidden),
            matrix(name("mlp.up_proj"), ffn, hidden),
            matrix(name("mlp.down_proj"), hidden, ffn),
        ]);
    }
    write_file(&dir.join("model.safetensors"), &tensors)
}
