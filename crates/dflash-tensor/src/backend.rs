use crate::{
    AttentionSpec, BackendError, Batch, Choice, ConvInputs, ConvSpec, DeltaInputs, DeltaSpec, Experts,
    KvGeometry, KvStore, Part, RecurrentGeometry, RecurrentStore, SeqCache, Tensor, Weight,
};

/// What happens to the input rows of a linear operation before the product.
#[derive(Clone, Copy)]
pub enum Pre<'a> {
    /// Nothing.
    None,
    /// `x / sqrt(mean(x^2) + eps) * weight`, with `weight` `[1, cols]`.
    RmsNorm {
        /// Gain.
        weight: &'a Tensor,
        /// Added to the mean square.
        eps: f32,
    },
}

/// Gate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
}

/// The logits among which a choice is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Among {
    /// The first `vocab` rows of the weight.
    pub vocab: usize,
    /// `l = cap * tanh(l / cap)` first.
    pub softcap: Option<f32>,
}

impl Among {
    /// The first `vocab` logits as they are.
    pub fn first(vocab: usize) -> Self {
        Self { vocab, softcap: None }
    }
}

/// What happens to the product of a linear operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Written to the part's own output.
    Store,
    /// Added to the part's own output (the residual).
    Add,
    /// The weight has two parts of equal rows, gate and up; one output takes `act(gate) * up`.
    Glu(Activation),
}

/// The operations a model is made of. Object-safe and coarse: a dense decoder layer is at most five.
///
/// # Contract
/// - **Row-invariant**: an output row depends on its own input row, its span's committed positions and the
///   rows of its own path, never on how many rows, spans or threads share the call. The same rows give the
///   same bits however they are split into calls.
/// - **Deterministic and in order**: operations take effect in call order.
/// - Shapes are the caller's duty; a mismatch panics. A device failure is sticky and returned by the next
///   call that can fail ([`Backend::sync`], [`Backend::choose`]).
pub trait Backend: Send + Sync {
    /// Name for people, such as `cpu (avx2, 2 threads)`.
    fn name(&self) -> String;

    /// Names the bits that it gives: two backends of the same name give the same for the same weights and ids, whatever the
    /// processor. It is to change with every order of a sum, and with how states lie in memory: what was kept under another
    /// name is of no use.
    fn numerics(&self) -> String;

    /// A zeroed tensor with room for `rows` rows.
    fn tensor(&self, rows: usize, cols: usize) -> Tensor;

    /// Writes whole rows (`data.len()` a multiple of the columns) from row `row` on.
    fn write(&self, tensor: &mut Tensor, row: usize, data: &[f32]);

    /// Reads row `row`.
    fn read(&self, tensor: &Tensor, row: usize) -> Vec<f32>;

    /// Packs matrices that share an input into one weight with one output each.
    ///
    /// # Errors
    /// A part of the wrong length, ragged blocks, or a format without kernel.
    fn pack(&self, parts: &[Part<'_>]) -> Result<Weight, BackendError>;

    /// A new one-part weight made of the rows `ids` of a one-part weight, in that order.
    fn gather(&self, weight: &Weight, ids: &[u32]) -> Weight;

    /// `outs[p][r] = tail(weight_p · pre(x[r]) + bias_p)` for all rows of `x`; sets the rows of `outs`
    /// (with [`Tail::Add`] they are there already).
    fn linear(&self, weight: &Weight, x: &Tensor, pre: Pre<'_>, tail: Tail, outs: &mut [&mut Tensor]);

    /// `out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight`; when the weight is narrower than the rows, every
    /// piece of a row of its width is normalised on its own.
    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f32, out: &mut Tensor);

    /// Copies rows `source_row..source_row + rows` of `source` into `target` from `(row, col)` on.
    fn copy(
        &self,
        source: &Tensor,
        source_row: usize,
        rows: usize,
        target: &mut Tensor,
        row: usize,
        col: usize,
    );

    /// `x[r] = act(gate[r]) * x[r]`; a gate of one column holds for the whole row.
    fn gate(&self, activation: Activation, gate: &Tensor, x: &mut Tensor);

    /// `out[r] = out[r] + pre(x[r])`.
    fn add(&self, x: &Tensor, pre: Pre<'_>, out: &mut Tensor);

    /// `x[r] = factor * x[r]`.
    fn scale(&self, factor: f32, x: &mut Tensor);

    /// `x[r] = cap * tanh(x[r] / cap)`.
    fn softcap(&self, cap: f32, x: &mut Tensor);

    /// `out[r] = x[r]` from column `col` on, as many columns as `out` has.
    fn columns(&self, x: &Tensor, col: usize, out: &mut Tensor);

    /// `out[r] = scale * row ids[r] of table` (the table may be the packed head). The rows of several parts are
    /// numbered one part after the other.
    ///
    /// # Panics
    /// When an id is not below the rows of the table; ids are validated before they reach a model.
    fn embed(&self, table: &Weight, ids: &[u32], scale: f32, out: &mut Tensor);

    /// An empty K/V block of [`BLOCK_POSITIONS`](crate::BLOCK_POSITIONS) positions.
    fn kv_block(&self, geometry: KvGeometry) -> Box<dyn KvStore>;

    /// Normalises and rotates `k` and appends `k`, `v` (`[rows, kv heads * dim]`) of every span to layer
    /// `layer` of its cache at the span's positions, without attending. Chains only.
    fn append(
        &self,
        spec: &AttentionSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        k: &mut Tensor,
        v: &Tensor,
    );

    /// [`Backend::append`] of the keys and values `kv`, then every row attends to the keys its mask shows:
    /// `q`, `out` are `[rows, heads * dim]`; `q` and the keys are scratch afterwards. Without `kv` the layer
    /// reads those that this pass has appended to `layer` before.
    #[allow(clippy::too_many_arguments)]
    fn attention(
        &self,
        spec: &AttentionSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        q: &mut Tensor,
        kv: Option<(&mut Tensor, &Tensor)>,
        out: &mut Tensor,
    );

    /// The state of a recurrent layer of a sequence without tokens: all zeros.
    fn recurrent_state(&self, geometry: RecurrentGeometry) -> Box<dyn RecurrentStore>;

    /// A Gated DeltaNet layer: for each row `t` of a span, in its path's order and in f32,
    ///
    /// ```text
    /// c = silu(sum over j of filter[j] * qkv[t - kernel + 1 + j])      per channel; zero before the sequence
    /// q, k, v = heads of c;  q = q / sqrt(sum q^2 + 1e-6) / sqrt(key_dim);  k = k / sqrt(sum k^2 + 1e-6)
    /// g = exp(rate * softplus(alpha + dt_bias));  b = sigmoid(beta)     per value head
    /// S = g * S;  delta = b * (v - S'k);  S = S + k delta';  y = S'q
    /// out = rms_norm(y) * silu(gate)                                    per value head
    /// ```
    ///
    /// on layer `layer` of the span's cache; `out` is `[rows, value_heads * value_dim]`.
    fn gated_delta(
        &self,
        spec: &DeltaSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        inputs: DeltaInputs<'_>,
        out: &mut Tensor,
    );

    /// A gated short convolution on layer `layer` of every span's cache:
    /// `out[t] = after[t] * (bias + sum over j of filter[j] * u[t - kernel + 1 + j])`, `u = before * x`.
    fn short_conv(
        &self,
        spec: &ConvSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        inputs: ConvInputs<'_>,
        out: &mut Tensor,
    );

    /// `out[r] = sum over the experts e of row r of weight(r, e) * down_e · (act(gate_e · x[r]) * up_e · x[r])`
    /// in the order of falling scores; `scores` is `[rows, experts]`.
    fn experts(&self, experts: &Experts, scores: &Tensor, x: &Tensor, out: &mut Tensor);

    /// For each row of `x` named in `rows` the choice among logits of a one-part weight, with the bits of the
    /// stored row but without storing it. Appends to `out`.
    ///
    /// # Errors
    /// [`BackendError::NotANumber`], or a sticky device error.
    fn choose(
        &self,
        weight: &Weight,
        x: &Tensor,
        rows: &[usize],
        pre: Pre<'_>,
        among: Among,
        out: &mut Vec<Choice>,
    ) -> Result<(), BackendError>;

    /// The logits of the rows of `x` named in `rows`: `out[i] = weight · pre(x[rows[i]])`.
    fn logits(&self, weight: &Weight, x: &Tensor, rows: &[usize], pre: Pre<'_>, out: &mut Tensor);

    /// Waits for all operations.
    ///
    /// # Errors
    /// The sticky device error, which is cleared.
    fn sync(&self) -> Result<(), BackendError>;
}
