/// The shape of a draft: all that its config file says (spec of the z-lab layout).
#[derive(Debug, Clone, PartialEq)]
pub struct DraftShape {
    /// Width of its residual stream; that of the target.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the MLPs.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Of all RMS norms.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// Positions that it is made for.
    pub context: usize,
    /// Block length, the staged token included.
    pub block: usize,
    /// Id that stands for positions to be filled.
    pub mask_id: u32,
    /// Target layers whose outputs are the features, counted from 0, in the order of their columns.
    pub taps: Vec<usize>,
    /// Layers of the target.
    pub target_layers: usize,
    /// Ids of the target.
    pub target_vocab: usize,
    /// Target ids that it can propose, ascending; `None` for all of them.
    pub vocab: Option<Vec<u32>>,
    /// Rank of the Markov head, which corrects a slot by the token before it (DSpark); 0 for none.
    pub markov_rank: usize,
}

impl DraftShape {
    /// Ids that it can propose.
    pub fn vocab_len(&self) -> usize {
        self.vocab.as_ref().map_or(self.target_vocab, Vec::len)
    }

    /// Columns of a feature row.
    pub fn features(&self) -> usize {
        self.taps.len() * self.hidden
    }

    /// Every tensor that such a draft is made of, with its shape `[rows, columns]` or `[columns]`.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (hidden, queries, keys) =
            (self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut all = vec![
            ("fc.weight".to_owned(), vec![hidden, self.features()]),
            ("hidden_norm.weight".to_owned(), vec![hidden]),
            ("norm.weight".to_owned(), vec![hidden]),
        ];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize]| {
                all.push((format!("layers.{layer}.{name}.weight"), shape.to_vec()));
            };
            add("input_layernorm", &[hidden]);
            add("post_attention_layernorm", &[hidden]);
            add("self_attn.q_proj", &[queries, hidden]);
            add("self_attn.k_proj", &[keys, hidden]);
            add("self_attn.v_proj", &[keys, hidden]);
            add("self_attn.o_proj", &[hidden, queries]);
            add("self_attn.q_norm", &[self.head_dim]);
            add("self_attn.k_norm", &[self.head_dim]);
            add("mlp.gate_proj", &[self.ffn, hidden]);
            add("mlp.up_proj", &[self.ffn, hidden]);
            add("mlp.down_proj", &[hidden, self.ffn]);
        }
        if self.markov_rank > 0 {
            all.push(("markov_head.markov_w1.weight".to_owned(), vec![self.target_vocab, self.markov_rank]));
            all.push(("markov_head.markov_w2.weight".to_owned(), vec![self.vocab_len(), self.markov_rank]));
        }
        all
    }
}
