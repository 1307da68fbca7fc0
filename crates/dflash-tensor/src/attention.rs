use std::sync::Arc;

use crate::{Keep, KvGeometry, Rope, Tensor};

/// RMS norm of each head of a query or key, applied before the rotary embedding.
pub struct HeadNorm {
    /// Gain `[1, head_dim]`.
    pub weight: Tensor,
    /// Added to the mean square.
    pub eps: f32,
}

/// Which keys a row sees. `q` is the row's absolute position, `k` a key's, `start` the span's first position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask {
    /// Rows of the span see only `k <= q` (in a tree: ancestors and themselves). When false every row of
    /// the span sees all rows of the span.
    pub causal: bool,
    /// Sliding window: only keys with `q - k < window`. In a span that is not causal, keys after the row
    /// are always inside.
    pub window: Option<usize>,
    /// Of the committed keys (`k < start`) only `k < sink` and `k >= start - tail` are visible.
    pub keep: Option<Keep>,
}

impl Mask {
    /// Ordinary causal attention over everything before.
    pub const CAUSAL: Self = Self { causal: true, window: None, keep: None };
}

/// One layer's attention: sizes, norms, rotary embedding and mask.
///
/// Query head `h` reads key/value head `h / (heads / kv_heads)`.
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads and their width.
    pub kv: KvGeometry,
    /// Multiplies q·k, usually `head_dim^-0.5`.
    pub scale: f32,
    /// `s = cap * tanh(s / cap)` on the scaled scores.
    pub softcap: Option<f32>,
    /// Norm of every query head.
    pub q_norm: Option<HeadNorm>,
    /// Norm of every key head.
    pub k_norm: Option<HeadNorm>,
    /// Rotary embedding of queries and keys.
    pub rope: Arc<Rope>,
    /// Visible keys.
    pub mask: Mask,
}
