use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tensor_file::write_json;
use crate::{Dtype, Rng, TensorFile};

/// Scaling of the rotary frequencies of a tiny target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TinyRope {
    /// None.
    Default,
    /// Divided by 4.
    Linear,
    /// As Llama 3.1, for an original context of 32.
    Llama3,
}

/// Quantisation of a tiny target: matrices and tables hold random elements, scales and biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TinyMlx {
    /// Bits of an element: 2, 3, 4, 5, 6 or 8.
    pub bits: usize,
    /// Inputs that share a scale and a bias.
    pub group: usize,
    /// Writes the values as plain floats instead: the same model without quantisation.
    pub plain: bool,
}

/// A seeded random Llama in HF layout. The default has two layers and an untied head.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyLlama {
    /// Names the weights.
    pub seed: u64,
    /// Width.
    pub hidden: usize,
    /// Width of the MLP.
    pub ffn: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Valid ids.
    pub vocab: usize,
    /// Further rows of embedding and head that are no ids.
    pub padding: usize,
    /// Positions.
    pub context: usize,
    /// Whether embedding and head are one table.
    pub tied: bool,
    /// Rotary scaling.
    pub rope: TinyRope,
    /// Stored type.
    pub dtype: Dtype,
    /// `eos_token_id` of config.json.
    pub eos: Vec<u32>,
    /// MLX affine quantisation.
    pub mlx: Option<TinyMlx>,
}

impl Default for TinyLlama {
    fn default() -> Self {
        Self {
            seed: 1,
            hidden: 32,
            ffn: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            vocab: 97,
            padding: 0,
            context: 4096,
            tied: false,
            rope: TinyRope::Default,
            dtype: Dtype::F32,
            eos: vec![2],
            mlx: None,
        }
    }
}

impl TinyLlama {
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
        let mut config = self.plain_config();
        if let Some(TinyMlx { bits, group, plain: false }) = self.mlx {
            config["quantization"] = json!({"group_size": group, "bits": bits});
        }
        config
    }

    fn plain_config(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
            "rope_theta": 10000.0,
            "rope_scaling": self.rope_scaling(),
            "tie_word_embeddings": self.tied,
            "torch_dtype": self.dtype.name(),
            "eos_token_id": self.eos,
        })
    }

    fn rope_scaling(&self) -> Value {
        match self.rope {
            TinyRope::Default => Value::Null,
            TinyRope::Linear => json!({"rope_type": "linear", "factor": 4.0}),
            TinyRope::Llama3 => json!({
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }),
        }
    }

    /// The content of `model.safetensors`.
    pub fn tensors(&self) -> TensorFile {
        let mut weights = Weights {
            rng: Rng::new(self.seed),
            file: TensorFile::default(),
            dtype: self.dtype,
            mlx: self.mlx,
        };
        let rows = self.vocab + self.padding;
        weights.table("model.embed_tokens.weight", rows, self.hidden);
        (0..self.layers).for_each(|layer| self.layer(&mut weights, &format!("model.layers.{layer}")));
        weights.gain("model.norm.weight", self.hidden);
        if !self.tied {
            weights.table("lm_head.weight", rows, self.hidden);
        }
        weights.file
    }

    fn layer(&self, weights: &mut Weights, prefix: &str) {
        let stack = Stack {
            hidden: self.hidden,
            ffn: self.ffn,
            q: self.heads * self.head_dim,
            kv: self.kv_heads * self.head_dim,
        };
        stack.write(weights, prefix);
    }
}

/// Widths of a decoder layer.
pub(crate) struct Stack {
    pub(crate) hidden: usize,
    pub(crate) ffn: usize,
    pub(crate) q: usize,
    pub(crate) kv: usize,
}

impl Stack {
    /// Adds the tensors of a layer that every dense decoder has.
    pub(crate) fn write(&self, weights: &mut Weights, prefix: &str) {
        let name = |tail: &str| format!("{prefix}.{tail}.weight");
        weights.gain(&name("input_layernorm"), self.hidden);
        weights.matrix(&name("self_attn.q_proj"), self.q, self.hidden);
        weights.matrix(&name("self_attn.k_proj"), self.kv, self.hidden);
        weights.matrix(&name("self_attn.v_proj"), self.kv, self.hidden);
        weights.matrix(&name("self_attn.o_proj"), self.hidden, self.q);
        weights.gain(&name("post_attention_layernorm"), self.hidden);
        weights.matrix(&name("mlp.gate_proj"), self.ffn, self.hidden);
        weights.matrix(&name("mlp.up_proj"), self.ffn, self.hidden);
        weights.matrix(&name("mlp.down_proj"), self.hidden, self.ffn);
    }
}

/// A tensor file that is filled with random weights.
pub(crate) struct Weights {
    pub(crate) rng: Rng,
    pub(crate) file: TensorFile,
    pub(crate) dtype: Dtype,
    pub(crate) mlx: Option<TinyMlx>,
}

impl Weights {
    /// A matrix that keeps the size of its input, roughly.
    pub(crate) fn matrix(&mut self, name: &str, rows: usize, cols: usize) {
        self.spread(name, rows, cols, 1.5 / (cols as f32).sqrt());
    }

    /// An embedding or head with spread-out rows.
    pub(crate) fn table(&mut self, name: &str, rows: usize, cols: usize) {
        self.spread(name, rows, cols, 0.7);
    }

    fn spread(&mut self, name: &str, rows: usize, cols: usize, scale: f32) {
        if let Some(mlx) = self.mlx {
            return self.affine(name, [rows, cols], scale, mlx);
        }
        let values = self.rng.bells(rows * cols, scale);
        self.file.floats(name, &[rows, cols], &values, self.dtype);
    }

    /// A matrix of `scale * element + bias`, with steps that cover about as much as [`Weights::spread`].
    fn affine(&mut self, name: &str, [rows, cols]: [usize; 2], spread: f32, mlx: TinyMlx) {
        let TinyMlx { bits, group, plain } = mlx;
        let levels = 1u32 << bits;
        let elements = (0..rows * cols).map(|_| self.rng.below(levels) as u8).collect::<Vec<_>>();
        // Powers of two, exact in every type.
        let step = 2f32.powi((2.0 * spread / levels as f32).log2().round() as i32);
        let groups = rows * cols / group;
        let scales = (0..groups).map(|_| step * [1.0, 0.5][self.rng.below(2) as usize]).collect::<Vec<_>>();
        let biases = scales.iter().map(|scale| -scale * levels as f32 / 2.0).collect::<Vec<_>>();
        if plain {
            let value =
                |(i, &element): (usize, &u8)| scales[i / group] * f32::from(element) + biases[i / group];
            let values = elements.iter().enumerate().map(value).collect::<Vec<_>>();
            return self.file.floats(name, &[rows, cols], &values, self.dtype);
        }
        let module = name.strip_suffix(".weight").expect("a matrix");
        // A stream of bits, lowest first: eight elements fill as many bytes as one has bits.
        let eight = |eight: &[u8]| eight.iter().rev().fold(0, |all: u64, &q| all << bits | u64::from(q));
        let bytes = elements.chunks(8).flat_map(|all| eight(all).to_le_bytes().into_iter().take(bits));
        let bytes = bytes.collect::<Vec<_>>();
        self.file.raw(name, "U32", &[rows, cols * bits / 32], &bytes);
        self.file.floats(&format!("{module}.scales"), &[rows, cols / group], &scales, self.dtype);
        self.file.floats(&format!("{module}.biases"), &[rows, cols / group], &biases, self.dtype);
    }

    /// Matrices as [`Weights::matrix`], one after the other in one tensor.
    pub(crate) fn stack(&mut self, name: &str, shape: [usize; 3]) {
        let values = self.rng.bells(shape.iter().product(), 1.5 / (shape[2] as f32).sqrt());
        self.file.floats(name, &shape, &values, self.dtype);
    }

    /// A gain around one.
    pub(crate) fn gain(&mut self, name: &str, len: usize) {
        let values = self.rng.bells(len, 0.2).iter().map(|x| 1.0 + x).collect::<Vec<_>>();
        self.file.floats(name, &[len], &values, self.dtype);
    }
}
