//! Input rows of a linear operation, normalised and quantised once per call.

use dflash_tensor::{Pre, Tensor};

use crate::disjoint::Disjoint;
use crate::pack::{BLOCK, Packed};
use crate::pool::share;
use crate::quantize::QuantBlock;
use crate::{CpuBackend, host, rows};

/// Elements up to which the calling thread prepares the rows alone: a region costs more than it saves.
const ALONE: usize = 8192;

/// Storage that is reused from call to call.
#[derive(Default)]
pub(crate) struct InputBuffers {
    values: Vec<f32>,
    blocks: Vec<QuantBlock>,
}

/// Prepared rows.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// `[rows, cols]`, for weights of floats; empty when there are none.
    pub(crate) values: &'a [f32],
    /// `[rows, cols / 32]`, for quantised weights; empty when there are none.
    pub(crate) blocks: &'a [QuantBlock],
}

impl Inputs<'_> {
    /// Blocks of a row.
    pub(crate) fn row_blocks(&self) -> usize {
        self.cols / BLOCK
    }

    /// Bytes that a product reads of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        let (values, blocks) = (size_of_val(self.values), size_of_val(self.blocks));
        ((values + blocks) / self.rows.max(1)).max(1)
    }
}

/// Which rows to prepare, and how.
pub(crate) struct Request<'a> {
    pub(crate) x: &'a Tensor,
    /// Rows of `x`; all of them when absent.
    pub(crate) rows: Option<&'a [usize]>,
    pub(crate) pre: Pre<'a>,
}

impl Request<'_> {
    /// Rows to prepare.
    fn len(&self) -> usize {
        self.rows.map_or(self.x.rows(), <[usize]>::len)
    }

    /// Row `index` of the request.
    fn row(&self, index: usize) -> &[f32] {
        let (row, cols) = (self.rows.map_or(index, |rows| rows[index]), self.x.cols());
        &host::rows(self.x)[row * cols..][..cols]
    }

    /// Whether the rows of `x` can be read where they are.
    fn in_place(&self) -> bool {
        self.rows.is_none() && matches!(self.pre, Pre::None)
    }
}

impl InputBuffers {
    /// Prepares the rows that `request` names for the formats in `weight`.
    pub(crate) fn prepare<'a>(
        &'a mut self,
        backend: &CpuBackend,
        weight: &Packed,
        request: &'a Request<'_>,
    ) -> Inputs<'a> {
        let (rows, cols) = (request.len(), request.x.cols());
        let quantized = weight.parts.iter().any(|part| part.kind.is_quantized());
        let floats = weight.parts.iter().any(|part| !part.kind.is_quantized());
        let copied = !request.in_place() && (floats || !matches!(request.pre, Pre::None));
        let values = room(&mut self.values, if copied { rows * cols } else { 0 });
        let blocks = room(&mut self.blocks, if quantized { rows * cols / BLOCK } else { 0 });
        fill(backend, request, values, blocks);
        let values = if copied || !floats { values } else { host::rows(request.x) };
        Inputs { rows, cols, values, blocks }
    }
}

/// The first `len` elements, which hold leftovers.
pub(crate) fn room<T: Default + Clone>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

fn fill(backend: &CpuBackend, request: &Request<'_>, values: &mut [f32], blocks: &mut [QuantBlock]) {
    let (rows, cols) = (request.len(), request.x.cols());
    if values.is_empty() && blocks.is_empty() {
        return;
    }
    let (values_width, blocks_width) = (values.len() / rows, blocks.len() / rows);
    let (values, blocks) = (Disjoint::new(values), Disjoint::new(blocks));
    let norm = match request.pre {
        Pre::None => None,
        Pre::RmsNorm { weight, eps } => Some((host::rows(weight), eps)),
    };
    let prepare = |range: std::ops::Range<usize>| {
        for row in range {
            // SAFETY: every row is prepared once.
            let values = unsafe { values.piece(row * values_width..(row + 1) * values_width) };
            // SAFETY: every row is prepared once.
            let blocks = unsafe { blocks.piece(row * blocks_width..(row + 1) * blocks_width) };
            rows::prepare(backend.isa, request.row(row), norm, values, blocks);
        }
    };
    let threads = backend.pool.threads();
    if rows == 1 || rows * cols <= ALONE {
        return prepare(0..rows);
    }
    backend.pool.run(&|thread| prepare(share(rows, thread, threads)));
}
