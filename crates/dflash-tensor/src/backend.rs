use crate::{
    AttentionSpec, BackendError, Batch, Choice, KvGeometry, KvStore, Part, SeqCache, Tensor, Weight,
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

/// Gate function of a gated linear unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
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

    /// `out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight`.
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

    /// `out[r] = scale * row ids[r] of table` (the table may be the packed head).
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

    /// [`Backend::append`], then every row attends to the keys its mask shows:
    /// `q`, `out` are `[rows, heads * dim]`; `q` and `k` are scratch afterwards.
    #[allow(clippy::too_many_arguments)]
    fn attention(
        &self,
        spec: &AttentionSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        q: &mut Tensor,
        k: &mut Tensor,
        v: &Tensor,
        out: &mut Tensor,
    );

    /// For each row of `x` named in `rows` the choice among the first `vocab` logits of a one-part weight,
    /// with the bits of the stored row but without storing it. Appends to `out`.
    ///
    /// # Errors
    /// [`BackendError::NotANumber`], or a sticky device error.
    fn choose(
        &self,
        weight: &Weight,
        x: &Tensor,
        rows: &[usize],
        pre: Pre<'_>,
        vocab: usize,
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
