//! The shapes of published models, from their configs.

use serde_json::{Value, json};

use crate::Outcome;
use crate::tensors::{Kind, Meta, Model, Part, gain, matrix};

/// What `write` knows.
pub const NAMES: [&str; 4] = ["qwen3.5-4b", "qwen3-8b", "qwen3-30b-a3b", "gemma-4-26b-a4b"];

/// A model, with fewer layers if asked.
pub fn of(name: &str, layers: Option<usize>) -> Outcome<Model> {
    match name {
        "qwen3.5-4b" => Ok(qwen3_5(layers.unwrap_or(32))),
        "qwen3-8b" => Ok(qwen3(&DENSE, layers.unwrap_or(36))),
        "qwen3-30b-a3b" => Ok(qwen3(&SPARSE, layers.unwrap_or(48))),
        "gemma-4-26b-a4b" => Ok(gemma4(layers.unwrap_or(30))),
        _ => Err(format!("models: {}", NAMES.join(", ")).into()),
    }
}

struct Qwen3 {
    hidden: usize,
    ffn: usize,
    kv_heads: usize,
    /// Experts, those a row takes, and their width.
    experts: Option<[usize; 3]>,
}

/// Qwen3-8B.
const DENSE: Qwen3 = Qwen3 { hidden: 4096, ffn: 12288, kv_heads: 8, experts: None };
/// Qwen3-30B-A3B.
const SPARSE: Qwen3 = Qwen3 { hidden: 2048, ffn: 6144, kv_heads: 4, experts: Some([128, 8, 768]) };

const HEADS: usize = 32;
const DIM: usize = 128;
const VOCAB: usize = 151_936;

fn qwen3(sizes: &Qwen3, layers: usize) -> Model {
    let Qwen3 { hidden, ffn, kv_heads, experts } = *sizes;
    let mut config = json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 151_643, "eos_token_id": 151_645, "head_dim": DIM, "hidden_act": "silu",
        "hidden_size": hidden, "initializer_range": 0.02, "intermediate_size": ffn,
        "max_position_embeddings": 40960, "max_window_layers": layers, "model_type": "qwen3",
        "num_attention_heads": HEADS, "num_hidden_layers": layers, "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-6, "rope_scaling": null, "rope_theta": 1_000_000, "sliding_window": null,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
        "use_cache": true, "use_sliding_window": false, "vocab_size": VOCAB,
    });
    let mut keys = decoder_keys([hidden, layers, HEADS, kv_heads, DIM, ffn], 40960, 1e6);
    if let Some([count, top, width]) = experts {
        config["model_type"] = json!("qwen3_moe");
        config["num_experts"] = json!(count);
        config["num_experts_per_tok"] = json!(top);
        config["moe_intermediate_size"] = json!(width);
        config["norm_topk_prob"] = json!(true);
        keys.extend([
            ("expert_count", Meta::Size(count)),
            ("expert_used_count", Meta::Size(top)),
            ("expert_feed_forward_length", Meta::Size(width)),
        ]);
    }
    let mut parts = tables("model.", "lm_head", VOCAB, hidden);
    for layer in 0..layers {
        let (hf, gguf) = (format!("model.layers.{layer}"), format!("blk.{layer}"));
        parts.push(gain(format!("{hf}.input_layernorm"), format!("{gguf}.attn_norm"), hidden));
        parts.extend(attention(&hf, &gguf, hidden, [HEADS * DIM, HEADS, kv_heads, DIM]));
        parts.push(gain(format!("{hf}.post_attention_layernorm"), format!("{gguf}.ffn_norm"), hidden));
        match experts {
            None => parts.extend(mlp(&hf, &gguf, [hidden, ffn])),
            Some([count, _, width]) => {
                parts.push(Part {
                    kind: Kind::Matrix(8),
                    ..matrix(format!("{hf}.mlp.gate"), format!("{gguf}.ffn_gate_inp"), &[count, hidden])
                });
                parts.extend(stacks(&format!("{hf}.mlp.switch_mlp"), &gguf, [count, hidden, width]));
            }
        }
    }
    let arch = if experts.is_some() { "qwen3moe" } else { "qwen3" };
    Model { config, gguf: Some((arch, keys)), parts }
}

/// Sizes are those that the release states for its text model.
fn qwen3_5(layers: usize) -> Model {
    let (hidden, ffn, vocab, interval) = (2560, 9216, 248_320, 4);
    let (heads, kv_heads, dim) = (16, 4, 256);
    let (key_heads, value_heads, head) = (16, 32, 128);
    let kind =
        |layer: usize| if layer.is_multiple_of(interval) { "full_attention" } else { "linear_attention" };
    let config = json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 248_056,
        "model_type": "qwen3_5", "tie_word_embeddings": true, "transformers_version": "4.57.0.dev0",
        "video_token_id": 248_057, "vision_config": {}, "vision_end_token_id": 248_054,
        "vision_start_token_id": 248_053,
        "text_config": {
            "attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true, "dtype": "bfloat16",
            "eos_token_id": 248_044, "full_attention_interval": interval, "head_dim": dim, "hidden_act": "silu",
            "hidden_size": hidden, "initializer_range": 0.02, "intermediate_size": ffn,
            "layer_types": (1..=layers).map(kind).collect::<Vec<_>>(), "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": head, "linear_num_key_heads": key_heads,
            "linear_num_value_heads": value_heads, "linear_value_head_dim": head, "mamba_ssm_dtype": "float32",
            "max_position_embeddings": 262_144, "mlp_only_layers": [], "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false, "num_attention_heads": heads,
            "num_hidden_layers": layers, "num_key_value_heads": kv_heads, "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
                "rope_theta": 10_000_000, "rope_type": "default",
            },
            "tie_word_embeddings": true, "use_cache": true, "vocab_size": vocab,
        },
    });
    let mut keys = decoder_keys([hidden, layers, heads, kv_heads, dim, ffn], 262_144, 1e7);
    keys.extend([
        ("rope.dimension_count", Meta::Size(64)),
        ("full_attention_interval", Meta::Size(interval)),
        ("ssm.conv_kernel", Meta::Size(4)),
        ("ssm.group_count", Meta::Size(key_heads)),
        ("ssm.inner_size", Meta::Size(value_heads * head)),
        ("ssm.state_size", Meta::Size(head)),
        ("ssm.time_step_rank", Meta::Size(value_heads)),
    ]);
    let mut parts = tables("language_model.model.", "", vocab, hidden);
    for layer in 0..layers {
        let (hf, gguf) = (format!("language_model.model.layers.{layer}"), format!("blk.{layer}"));
        parts.push(gain(format!("{hf}.input_layernorm"), format!("{gguf}.attn_norm"), hidden));
        match kind(layer + 1) {
            "full_attention" => {
                parts.extend(attention(&hf, &gguf, hidden, [2 * heads * dim, heads, kv_heads, dim]))
            }
            _ => parts.extend(delta(&hf, &gguf, hidden, [key_heads, value_heads, head])),
        }
        let norm = (format!("{hf}.post_attention_layernorm"), format!("{gguf}.post_attention_norm"));
        parts.push(gain(norm.0, norm.1, hidden));
        parts.extend(mlp(&hf, &gguf, [hidden, ffn]));
    }
    Model { config, gguf: Some(("qwen35", keys)), parts }
}

fn delta(hf: &str, gguf: &str, hidden: usize, [key_heads, value_heads, head]: [usize; 3]) -> Vec<Part> {
    let name = |own: &str| format!("{hf}.linear_attn.{own}");
    let blk = |own: &str| format!("{gguf}.{own}");
    let channels = (2 * key_heads + value_heads) * head;
    let values =
        |own: &str, other: &str, len, kind| Part { mlx: name(own), gguf: blk(other), shape: len, kind };
    vec![
        matrix(name("in_proj_qkv"), blk("attn_qkv"), &[channels, hidden]),
        matrix(name("in_proj_z"), blk("attn_gate"), &[value_heads * head, hidden]),
        matrix(name("in_proj_b"), blk("ssm_beta"), &[value_heads, hidden]),
        matrix(name("in_proj_a"), blk("ssm_alpha"), &[value_heads, hidden]),
        values("conv1d.weight", "ssm_conv1d.weight", vec![channels, 4], Kind::Filter),
        values("A_log", "ssm_a", vec![value_heads], Kind::Rates((-3.0, 2.0), (-8.0, -0.05))),
        values("dt_bias", "ssm_dt.bias", vec![value_heads], Kind::Values(0.5, 1.0)),
        gain(name("norm"), blk("ssm_norm"), head),
        matrix(name("out_proj"), blk("ssm_out"), &[hidden, value_heads * head]),
    ]
}

/// Layers alternate by six; the full ones have heads twice as wide and take their keys for values.
fn gemma4(layers: usize) -> Model {
    let (hidden, ffn, vocab, heads) = (2816, 2112, 262_144, 16);
    let [count, top, width] = [128, 8, 704];
    let full = |layer: usize| layer % 6 == 5 || layer + 1 == layers;
    let kind = |layer| if full(layer) { "full_attention" } else { "sliding_attention" };
    let config = json!({
        "architectures": ["Gemma4ForConditionalGeneration"], "dtype": "bfloat16", "eos_token_id": [1, 106],
        "image_token_id": 258_880, "model_type": "gemma4", "tie_word_embeddings": true,
        "audio_config": null, "vision_config": {}, "vision_soft_tokens_per_image": 280,
        "text_config": {
            "attention_bias": false, "attention_k_eq_v": true, "enable_moe_block": true,
            "final_logit_softcapping": 30.0, "global_head_dim": 512, "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": hidden, "hidden_size_per_layer_input": 0,
            "intermediate_size": ffn, "layer_types": (0..layers).map(kind).collect::<Vec<_>>(),
            "max_position_embeddings": 262_144, "model_type": "gemma4_text", "moe_intermediate_size": width,
            "num_attention_heads": heads, "num_experts": count, "num_global_key_value_heads": 2,
            "num_hidden_layers": layers, "num_key_value_heads": 8, "num_kv_shared_layers": 0,
            "rms_norm_eps": 1e-6, "sliding_window": 1024, "tie_word_embeddings": true, "top_k_experts": top,
            "use_bidirectional_attention": "vision", "use_double_wide_mlp": false, "vocab_size": vocab,
            "rope_parameters": {
                "full_attention":
                    {"partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": 10_000.0, "rope_type": "default"},
            },
        },
    });
    let mut parts = tables("language_model.model.", "", vocab, hidden);
    for layer in 0..layers {
        let hf = format!("language_model.model.layers.{layer}");
        let [dim, kv_heads] = if full(layer) { [512, 2] } else { [256, 8] };
        let mut own = attention(&hf, "", hidden, [heads * dim, heads, kv_heads, dim]);
        own.retain(|part| !(full(layer) && part.mlx.ends_with("v_proj")));
        parts.extend(own);
        parts.extend(mlp(&hf, "", [hidden, ffn]));
        parts.extend(stacks(&format!("{hf}.experts.switch_glu"), "", [count, hidden, width]));
        let router = matrix(format!("{hf}.router.proj"), "", &[count, hidden]);
        parts.push(Part { kind: Kind::Matrix(8), ..router });
        parts.extend(NORMS.map(|name| gain(format!("{hf}.{name}"), "", hidden)));
        for (name, len) in [("router.scale", hidden), ("router.per_expert_scale", count), ("layer_scalar", 1)]
        {
            parts.push(Part {
                mlx: format!("{hf}.{name}"),
                gguf: String::new(),
                shape: vec![len],
                kind: Kind::Values(0.5, 1.0),
            });
        }
    }
    Model { config, gguf: None, parts }
}

const NORMS: [&str; 7] = [
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "pre_feedforward_layernorm_2",
    "post_feedforward_layernorm",
    "post_feedforward_layernorm_1",
    "post_feedforward_layernorm_2",
];

fn decoder_keys(sizes: [usize; 6], context: usize, base: f32) -> Vec<(&'static str, Meta)> {
    let [hidden, layers, heads, kv_heads, dim, ffn] = sizes;
    vec![
        ("block_count", Meta::Size(layers)),
        ("context_length", Meta::Size(context)),
        ("embedding_length", Meta::Size(hidden)),
        ("feed_forward_length", Meta::Size(ffn)),
        ("attention.head_count", Meta::Size(heads)),
        ("attention.head_count_kv", Meta::Size(kv_heads)),
        ("attention.key_length", Meta::Size(dim)),
        ("attention.value_length", Meta::Size(dim)),
        ("attention.layer_norm_rms_epsilon", Meta::Float(1e-6)),
        ("rope.freq_base", Meta::Float(base)),
    ]
}

/// Embedding, final norm and, unless it is tied, the head.
fn tables(root: &str, head: &str, vocab: usize, hidden: usize) -> Vec<Part> {
    let mut parts = vec![matrix(format!("{root}embed_tokens"), "token_embd", &[vocab, hidden])];
    parts.push(gain(format!("{root}norm"), "output_norm", hidden));
    if !head.is_empty() {
        parts.push(matrix(head, "output", &[vocab, hidden]));
    }
    parts
}

fn attention(hf: &str, gguf: &str, hidden: usize, [query, heads, kv_heads, dim]: [usize; 4]) -> Vec<Part> {
    let name = |own: &str| format!("{hf}.self_attn.{own}");
    let blk = |own: &str| format!("{gguf}.attn_{own}");
    vec![
        matrix(name("q_proj"), blk("q"), &[query, hidden]),
        matrix(name("k_proj"), blk("k"), &[kv_heads * dim, hidden]),
        matrix(name("v_proj"), blk("v"), &[kv_heads * dim, hidden]),
        matrix(name("o_proj"), blk("output"), &[hidden, heads * dim]),
        gain(name("q_norm"), blk("q_norm"), dim),
        gain(name("k_norm"), blk("k_norm"), dim),
    ]
}

fn mlp(hf: &str, gguf: &str, [hidden, ffn]: [usize; 2]) -> Vec<Part> {
    let matrix = |name: &str, shape: [usize; 2]| {
        matrix(format!("{hf}.mlp.{name}_proj"), format!("{gguf}.ffn_{name}"), &shape)
    };
    vec![matrix("gate", [ffn, hidden]), matrix("up", [ffn, hidden]), matrix("down", [hidden, ffn])]
}

fn stacks(mlx: &str, gguf: &str, [count, hidden, ffn]: [usize; 3]) -> Vec<Part> {
    let stack = |name: &str, shape: [usize; 3]| {
        matrix(format!("{mlx}.{name}_proj"), format!("{gguf}.ffn_{name}_exps"), &shape)
    };
    let (wide, narrow) = ([count, ffn, hidden], [count, hidden, ffn]);
    vec![stack("gate", wide), stack("up", wide), stack("down", narrow)]
}

/// The text model's keys.
pub fn text_config(config: &Value) -> &Value {
    config.get("text_config").filter(|section| section.is_object()).unwrap_or(config)
}
