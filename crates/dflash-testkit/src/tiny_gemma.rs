use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tensor_file::write_json;
use crate::tiny_llama::Weights;
use crate::{Dtype, Rng, TensorFile};

/// A seeded random Gemma 4 in the released schema, with everything the family has: sliding and full layers of
/// two widths, inputs per layer, experts, keys that are values too, keys that the last two layers share.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyGemma {
    /// Names the weights.
    pub seed: u64,
    /// Width.
    pub hidden: usize,
    /// Width of the MLP; twice that where keys are shared.
    pub ffn: usize,
    /// Per layer whether it is a sliding one. The last two share the keys of earlier ones.
    pub sliding: Vec<bool>,
    /// Positions that a sliding layer sees.
    pub window: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads of sliding layers; full ones have one.
    pub kv_heads: usize,
    /// Width of a head in sliding layers; twice that in full ones.
    pub head_dim: usize,
    /// Width of the inputs per layer.
    pub layer_inputs: usize,
    /// Experts, of which a row takes two.
    pub experts: usize,
    /// Valid ids.
    pub vocab: usize,
    /// Positions.
    pub context: usize,
    /// Cap of the logits.
    pub softcap: f32,
    /// Stored type.
    pub dtype: Dtype,
}

/// Layers that share the keys of earlier ones.
const SHARED: usize = 2;

impl Default for TinyGemma {
    fn default() -> Self {
        Self {
            seed: 3,
            hidden: 32,
            ffn: 32,
            sliding: vec![true, false, true, false],
            window: 20,
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            layer_inputs: 8,
            experts: 4,
            vocab: 97,
            context: 4096,
            softcap: 30.0,
            dtype: Dtype::Bf16,
        }
    }
}

impl TinyGemma {
    /// Writes `config.json` and `model.safetensors` into `dir`, which is made, and returns it.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn write(&self, dir: &Path) -> PathBuf {
        std::fs::create_dir_all(dir).expect("a writable test directory");
        write_json(&dir.join("config.json"), &self.config());
        self.tensors().write(&dir.join("model.safetensors"));
        dir.to_owned()
    }

    /// The content of `config.json`.
    pub fn config(&self) -> Value {
        json!({
            "architectures": ["Gemma4ForConditionalGeneration"],
            "model_type": "gemma4",
            "text_config": self.text_config(),
            "vision_config": null,
            "audio_config": null,
            "tie_word_embeddings": true,
            "eos_token_id": [2],
        })
    }

    fn text_config(&self) -> Value {
        let kind = |&sliding: &bool| if sliding { "sliding_attention" } else { "full_attention" };
        let types = self.sliding.iter().map(kind).collect::<Vec<_>>();
        json!({
            "model_type": "gemma4_text",
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.sliding.len(),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": true,
            "head_dim": self.head_dim,
            "global_head_dim": 2 * self.head_dim,
            "layer_types": types,
            "sliding_window": self.window,
            "num_kv_shared_layers": SHARED,
            "use_double_wide_mlp": true,
            "hidden_size_per_layer_input": self.layer_inputs,
            "vocab_size_per_layer_input": self.vocab,
            "enable_moe_block": true,
            "num_experts": self.experts,
            "top_k_experts": 2,
            "moe_intermediate_size": self.ffn,
            "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": 1e-6,
            "final_logit_softcapping": self.softcap,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
        })
    }

    /// The content of `model.safetensors`.
    pub fn tensors(&self) -> TensorFile {
        let mut weights =
            Weights { rng: Rng::new(self.seed), file: TensorFile::default(), dtype: self.dtype, mlx: None };
        let module = |name: &str| format!("model.language_model.{name}.weight");
        let inputs = self.sliding.len() * self.layer_inputs;
        weights.table(&module("embed_tokens"), self.vocab, self.hidden);
        weights.table(&module("embed_tokens_per_layer"), self.vocab, inputs);
        weights.matrix(&module("per_layer_model_projection"), inputs, self.hidden);
        weights.gain(&module("per_layer_projection_norm"), self.layer_inputs);
        (0..self.sliding.len()).for_each(|layer| self.layer(&mut weights, layer));
        weights.gain(&module("norm"), self.hidden);
        weights.file
    }

    fn layer(&self, weights: &mut Weights, layer: usize) {
        let prefix = format!("model.language_model.layers.{layer}");
        for norm in ["input", "post_attention", "pre_feedforward", "post_feedforward"] {
            weights.gain(&format!("{prefix}.{norm}_layernorm.weight"), self.hidden);
        }
        let shared = layer + SHARED >= self.sliding.len();
        self.attention(weights, &format!("{prefix}.self_attn"), self.sliding[layer], shared);
        let ffn = if shared { 2 * self.ffn } else { self.ffn };
        weights.matrix(&format!("{prefix}.mlp.gate_proj.weight"), ffn, self.hidden);
        weights.matrix(&format!("{prefix}.mlp.up_proj.weight"), ffn, self.hidden);
        weights.matrix(&format!("{prefix}.mlp.down_proj.weight"), self.hidden, ffn);
        self.mixture(weights, &prefix);
        weights.matrix(&format!("{prefix}.per_layer_input_gate.weight"), self.layer_inputs, self.hidden);
        weights.matrix(&format!("{prefix}.per_layer_projection.weight"), self.hidden, self.layer_inputs);
        weights.gain(&format!("{prefix}.post_per_layer_input_norm.weight"), self.hidden);
        weights.gain(&format!("{prefix}.layer_scalar"), 1);
    }

    fn attention(&self, weights: &mut Weights, prefix: &str, sliding: bool, shared: bool) {
        let name = |tail: &str| format!("{prefix}.{tail}.weight");
        let (dim, kv_heads) = if sliding { (self.head_dim, self.kv_heads) } else { (2 * self.head_dim, 1) };
        weights.matrix(&name("q_proj"), self.heads * dim, self.hidden);
        weights.gain(&name("q_norm"), dim);
        weights.matrix(&name("o_proj"), self.hidden, self.heads * dim);
        if shared {
            return;
        }
        weights.matrix(&name("k_proj"), kv_heads * dim, self.hidden);
        weights.gain(&name("k_norm"), dim);
        if sliding {
            weights.matrix(&name("v_proj"), kv_heads * dim, self.hidden);
        }
    }

    fn mixture(&self, weights: &mut Weights, prefix: &str) {
        let (experts, ffn, hidden) = (self.experts, self.ffn, self.hidden);
        for norm in
            ["pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"]
        {
            weights.gain(&format!("{prefix}.{norm}.weight"), hidden);
        }
        weights.matrix(&format!("{prefix}.router.proj.weight"), experts, hidden);
        weights.gain(&format!("{prefix}.router.scale"), hidden);
        weights.gain(&format!("{prefix}.router.per_expert_scale"), experts);
        weights.stack(&format!("{prefix}.experts.gate_up_proj"), [experts, 2 * ffn, hidden]);
        weights.stack(&format!("{prefix}.experts.down_proj"), [experts, hidden, ffn]);
    }
}
