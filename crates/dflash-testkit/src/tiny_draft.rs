use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tensor_file::write_json;
use crate::tiny_llama::{Stack, Weights};
use crate::{Dtype, Rng, TensorFile, TinyLlama};

/// In which toolkit's way a tiny draft is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TinyLayout {
    /// z-lab, older schema: sizes at the top level.
    Flat,
    /// z-lab, newer schema: sizes in `dflash_config`.
    Nested,
    /// speculators with the target's tables.
    Speculators,
    /// speculators with tables of its own; the head has so many rows, every second target id.
    SpeculatorsOwn(usize),
}

/// A seeded random block-diffusion draft for a [`TinyLlama`]. It is right only by chance.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyDraft {
    /// Names the weights.
    pub seed: u64,
    /// Draft layers.
    pub layers: usize,
    /// Width of the MLP.
    pub ffn: usize,
    /// Trained block.
    pub block: usize,
    /// The mask token.
    pub mask_id: u32,
    /// Tapped target layers.
    pub taps: Vec<usize>,
    /// Way of writing.
    pub layout: TinyLayout,
    /// Makes all layers but the last sliding ones with this window.
    pub window: Option<usize>,
    /// Rank of the Markov head, in a z-lab layout; 0 for none.
    pub markov_rank: usize,
    /// Stored type.
    pub dtype: Dtype,
}

impl Default for TinyDraft {
    fn default() -> Self {
        Self {
            seed: 2,
            layers: 2,
            ffn: 64,
            block: 8,
            mask_id: 3,
            taps: vec![1, 0],
            layout: TinyLayout::Flat,
            window: None,
            markov_rank: 0,
            dtype: Dtype::F32,
        }
    }
}

impl TinyDraft {
    /// Writes `config.json` and `model.safetensors` for `target` into `dir`, which is made, and returns it.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn write(&self, dir: &Path, target: &TinyLlama) -> PathBuf {
        std::fs::create_dir_all(dir).expect("a writable test directory");
        write_json(&dir.join("config.json"), &self.config(target));
        self.tensors(target).write(&dir.join("model.safetensors"));
        dir.to_owned()
    }

    /// The content of `config.json`.
    pub fn config(&self, target: &TinyLlama) -> Value {
        match self.layout {
            TinyLayout::Flat => self.flat(target),
            TinyLayout::Nested => self.nested(target),
            TinyLayout::Speculators | TinyLayout::SpeculatorsOwn(_) => self.speculators(target),
        }
    }

    fn body(&self, target: &TinyLlama) -> Value {
        let mut body = json!({
            "model_type": "qwen3",
            "hidden_size": target.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.ffn,
            "num_attention_heads": target.heads,
            "num_key_value_heads": target.kv_heads,
            "head_dim": target.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "vocab_size": target.vocab,
            "max_position_embeddings": target.context,
            "attention_bias": false,
        });
        if let Some(window) = self.window {
            let kind = |layer| if layer + 1 < self.layers { "sliding_attention" } else { "full_attention" };
            body["layer_types"] = (0..self.layers).map(kind).collect();
            body["sliding_window"] = window.into();
        }
        if self.markov_rank > 0 {
            body["markov_rank"] = self.markov_rank.into();
        }
        body
    }

    fn flat(&self, target: &TinyLlama) -> Value {
        let mut config = self.body(target);
        config["architectures"] = json!(["DFlashDraftModel"]);
        config["rope_theta"] = json!(10000.0);
        config["num_target_layers"] = target.layers.into();
        config["block_size"] = self.block.into();
        config["dflash_config"] = json!({"mask_token_id": self.mask_id, "target_layer_ids": self.taps});
        config
    }

    fn nested(&self, target: &TinyLlama) -> Value {
        let mut config = self.body(target);
        config["architectures"] = json!(["DFlashDraftModel"]);
        config["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 10000.0});
        config["dflash_config"] = json!({
            "mask_token_id": self.mask_id,
            "target_layer_ids": self.taps,
            "block_size": self.block,
            "num_target_layers": target.layers,
        });
        config
    }

    fn speculators(&self, target: &TinyLlama) -> Value {
        let mut body = self.body(target);
        body["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 10000.0});
        json!({
            "architectures": ["DFlashSpeculator"],
            "speculators_model_type": "dflash",
            "block_size": self.block,
            "draft_vocab_size": self.own_rows().unwrap_or(target.vocab),
            "target_hidden_size": target.hidden,
            "aux_hidden_state_layer_ids": self.taps.iter().map(|tap| tap + 1).collect::<Vec<_>>(),
            "mask_token_id": self.mask_id,
            "transformer_layer_config": body,
        })
    }

    fn own_rows(&self) -> Option<usize> {
        match self.layout {
            TinyLayout::SpeculatorsOwn(rows) => Some(rows),
            _ => None,
        }
    }

    /// The content of `model.safetensors`.
    pub fn tensors(&self, target: &TinyLlama) -> TensorFile {
        let mut weights =
            Weights { rng: Rng::new(self.seed), file: TensorFile::default(), dtype: self.dtype, mlx: None };
        weights.matrix("fc.weight", target.hidden, self.taps.len() * target.hidden);
        weights.gain("hidden_norm.weight", target.hidden);
        (0..self.layers).for_each(|layer| self.layer(&mut weights, target, &format!("layers.{layer}")));
        weights.gain("norm.weight", target.hidden);
        if let Some(rows) = self.own_rows() {
            own_tables(&mut weights, target, rows);
        }
        if self.markov_rank > 0 {
            weights.table("markov_head.markov_w1.weight", target.vocab, self.markov_rank);
            weights.table("markov_head.markov_w2.weight", target.vocab, self.markov_rank);
        }
        weights.file
    }

    fn layer(&self, weights: &mut Weights, target: &TinyLlama, prefix: &str) {
        let (q, kv) = (target.heads * target.head_dim, target.kv_heads * target.head_dim);
        Stack { hidden: target.hidden, ffn: self.ffn, q, kv }.write(weights, prefix);
        for norm in ["q_norm", "k_norm"] {
            weights.gain(&format!("{prefix}.self_attn.{norm}.weight"), target.head_dim);
        }
    }
}

/// Embedding, a head of `rows` rows and the map from its rows to every second target id.
fn own_tables(weights: &mut Weights, target: &TinyLlama, rows: usize) {
    assert!(2 * rows <= target.vocab, "every second id of {} gives no {rows} rows", target.vocab);
    weights.table("embed_tokens.weight", target.vocab + target.padding, target.hidden);
    weights.table("lm_head.weight", rows, target.hidden);
    let offsets = (0..rows as i64).flat_map(i64::to_le_bytes).collect::<Vec<_>>();
    weights.file.raw("d2t", "I64", &[rows], &offsets);
    let reached = (0..target.vocab).map(|id| u8::from(id % 2 == 0 && id < 2 * rows)).collect::<Vec<_>>();
    weights.file.raw("t2d", "BOOL", &[target.vocab], &reached);
}
