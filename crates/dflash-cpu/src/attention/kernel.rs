//! What the attention kernels take and give, and the choice among them.

use half::f16;

use crate::Isa;

/// Positions of a block.
pub(crate) const KEYS: usize = dflash_tensor::BLOCK_POSITIONS;

/// Keys `[dim][64]` and values `[64][dim]` of one head in one block.
#[derive(Clone, Copy)]
pub(crate) struct KvHead<'a> {
    pub(crate) keys: &'a [f16],
    pub(crate) values: &'a [f16],
}

/// How a score follows from a product.
#[derive(Clone, Copy)]
pub(crate) struct Scoring {
    pub(crate) dim: usize,
    pub(crate) scale: f32,
    pub(crate) softcap: Option<f32>,
}

/// One row and head of a tile that sees something of a block.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    /// Index of its first element in the rows of `q`.
    pub(crate) input: usize,
    /// Its place in the running softmax.
    pub(crate) slot: usize,
    /// Visible positions of the block, at least one.
    pub(crate) mask: u64,
}

/// Queries, at least one, that attend to one block.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) how: Scoring,
    pub(crate) kv: KvHead<'a>,
    /// The head that will be needed next, or `kv` itself: it is fetched meanwhile.
    pub(crate) next: KvHead<'a>,
    /// Rows of the queries.
    pub(crate) q: &'a [f32],
    pub(crate) queries: &'a [Query],
}

/// Running softmax of some queries: maximum, sum and `[dim]` outputs of each. A sum of 0 means that nothing
/// was seen yet.
pub(crate) struct State<'a> {
    pub(crate) max: &'a mut [f32],
    pub(crate) sum: &'a mut [f32],
    pub(crate) out: &'a mut [f32],
}

/// Attends from queries to one block and joins what it gives to their running softmax.
///
/// # The formula
/// Scores: `s = scale * (q·k)`, the product summed with fused multiply-add over the dimensions in order, then
/// the soft cap. Of the visible scores `m` is the maximum, `p = exp(s - m)`; `l` sums `p` over the lanes
/// `key % 8` and then by a fixed tree, hidden keys giving 0; `o` sums `p * v` over the visible keys in order.
/// Hidden keys and values are never used, whatever they hold. Then as [`join`].
pub(crate) fn block(isa: Isa, visit: Visit<'_>, state: &mut State<'_>) {
    #[cfg(target_arch = "x86_64")]
    match isa {
        Isa::Avx512 if visit.how.dim.is_multiple_of(16) => {
            return crate::avx512::attention::block(visit, state);
        }
        Isa::Avx2 | Isa::Avx512 if visit.how.dim.is_multiple_of(8) => {
            return crate::avx2::attention::block(visit, state);
        }
        _ => {}
    }
    let _ = isa;
    crate::scalar::attention::block(visit, state);
}

/// Softmax of later keys of some queries: maximum, sum and `[dim]` outputs of each, as in [`State`].
#[derive(Clone, Copy)]
pub(crate) struct Later<'a> {
    pub(crate) max: &'a [f32],
    pub(crate) sum: &'a [f32],
    pub(crate) out: &'a [f32],
}

/// Joins `later` to the running softmax of as many queries, except where it has seen nothing:
/// with `m = max(M, m')`, `a = exp(M - m)`, `b = exp(m' - m)` the sums become `L*a + l*b`, the outputs
/// `O*a + o*b`.
pub(crate) fn join(isa: Isa, state: &mut State<'_>, later: Later<'_>, dim: usize) {
    #[cfg(target_arch = "x86_64")]
    if isa != Isa::Scalar && dim.is_multiple_of(8) {
        return crate::avx2::attention::join(state, later, dim);
    }
    let _ = isa;
    crate::scalar::attention::join(state, later, dim);
}
