use std::any::Any;

use crate::{HeadNorm, Tensor};

/// Sizes of a causal convolution along a sequence with one filter per channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvGeometry {
    /// Columns of a row.
    pub channels: usize,
    /// Rows that a filter covers, the current one included.
    pub kernel: usize,
}

/// Sizes of a gated delta rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaGeometry {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads, a multiple of the key heads; each has a state `[key_dim, value_dim]`.
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
}

impl DeltaGeometry {
    /// Columns of a row `[all q | all k | all v]`.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

/// What a recurrent layer carries from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentGeometry {
    /// The last `kernel - 1` input rows of the convolution (the conv tail).
    pub conv: ConvGeometry,
    /// A state per value head.
    pub delta: Option<DeltaGeometry>,
}

/// Which key head a value head reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeadMap {
    /// Value head `h` reads key head `h / r`, with `r` value heads per key head (HF layout).
    Grouped,
    /// Value head `h` reads key head `h % key_heads` (GGUF layout).
    Tiled,
}

impl KeyHeadMap {
    /// The key head of value head `head`.
    pub fn key_head(self, geometry: &DeltaGeometry, head: usize) -> usize {
        match self {
            Self::Grouped => head / (geometry.value_heads / geometry.key_heads),
            Self::Tiled => head % geometry.key_heads,
        }
    }
}

/// A Gated DeltaNet layer (arXiv 2412.06464) between its input and output projections.
pub struct DeltaSpec {
    /// Sizes.
    pub geometry: DeltaGeometry,
    /// Filters `[kernel, channels]`, the oldest row first.
    pub filter: Tensor,
    /// Negative decay rate of every value head, `-exp(A_log)`: `[1, value_heads]`.
    pub rate: Tensor,
    /// Added to the decay input of every value head: `[1, value_heads]`.
    pub dt_bias: Tensor,
    /// Norm of every value head's output: gain `[1, value_dim]`.
    pub norm: HeadNorm,
    /// Which key head a value head reads.
    pub key_heads: KeyHeadMap,
}

impl DeltaSpec {
    /// What the layer carries.
    pub fn recurrent(&self) -> RecurrentGeometry {
        let conv = ConvGeometry { channels: self.geometry.channels(), kernel: self.filter.rows() };
        RecurrentGeometry { conv, delta: Some(self.geometry) }
    }
}

/// Projected rows of a Gated DeltaNet layer.
#[derive(Clone, Copy)]
pub struct DeltaInputs<'a> {
    /// `[rows, channels]`: all q, all k, all v, before the convolution.
    pub qkv: &'a Tensor,
    /// Output gate `[rows, value_heads * value_dim]`.
    pub gate: &'a Tensor,
    /// Write strength before its sigmoid `[rows, value_heads]`.
    pub beta: &'a Tensor,
    /// Decay input `[rows, value_heads]`.
    pub alpha: &'a Tensor,
}

/// A gated short convolution (LFM2) between its input and output projections.
pub struct ConvSpec {
    /// Filters `[kernel, channels]`, the oldest row first.
    pub filter: Tensor,
    /// Added to the sum of a filter: `[1, channels]`.
    pub bias: Option<Tensor>,
}

impl ConvSpec {
    /// What the layer carries.
    pub fn recurrent(&self) -> RecurrentGeometry {
        let conv = ConvGeometry { channels: self.filter.cols(), kernel: self.filter.rows() };
        RecurrentGeometry { conv, delta: None }
    }
}

/// Projected rows of a gated short convolution, each `[rows, channels]`.
#[derive(Clone, Copy)]
pub struct ConvInputs<'a> {
    /// Multiplies the input of the convolution.
    pub before: &'a Tensor,
    /// Multiplies its output.
    pub after: &'a Tensor,
    /// The rows.
    pub x: &'a Tensor,
}

/// The rows of a pass that are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted<'a> {
    /// The first rows of a chain.
    Chain(usize),
    /// Rows of a tree, root first.
    Path(&'a [usize]),
}

impl Accepted<'_> {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Self::Chain(count) => count,
            Self::Path(path) => path.len(),
        }
    }

    /// The row of the pass that comes at `index`.
    pub fn row(self, index: usize) -> usize {
        match self {
            Self::Chain(_) => index,
            Self::Path(path) => path[index],
        }
    }
}

/// A backend's state of one recurrent layer of one sequence: what the committed rows left behind, what the
/// pass in flight makes of it, and the tape of that pass.
///
/// A pass never changes the committed state. It writes the state after its last row beside it and, when
/// taped, records every row's step (`delta`, normalised key, decay, raw convolution row). Accepting all rows
/// takes the new state; accepting fewer replays their steps from the committed one. Both give the bits that
/// the accepted rows alone would have given.
pub trait RecurrentStore: Any + Send + Sync {
    /// For the backend's downcast.
    fn as_any(&self) -> &dyn Any;
    /// For the backend's downcast.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Announces a pass; `taped` when it may be accepted in part.
    fn begin(&mut self, taped: bool);
    /// Commits rows of the pass and forgets the others.
    ///
    /// # Panics
    /// When a part of an untaped pass is accepted, other than nothing.
    fn accept(&mut self, rows: Accepted<'_>);
    /// A copy of the committed state.
    fn copy(&self) -> Box<dyn RecurrentStore>;
    /// Bytes held, the tape included.
    fn bytes(&self) -> usize;
    /// Bytes of the tape of the last taped pass.
    fn tape_bytes(&self) -> usize;
    /// Appends the committed state as bytes, whose order is the backend's own.
    fn save(&self, out: &mut Vec<u8>);
    /// Takes a state that was saved; false where there are not as many bytes.
    fn load(&mut self, bytes: &[u8]) -> bool;
}
