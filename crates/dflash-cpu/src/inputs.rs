//! Input rows of a linear operation, normalised and quantised once per call.

use dflash_tensor::{Pre, Tensor};

use crate::disjoint::Disjoint;
use crate::pack::{BLOCK, PackedPart};
use crate::quantize::{QuantBlock, WideBlock};
use crate::{CpuBackend, host, rows};

/// Elements up to which the calling thread prepares the rows alone: a region costs more than it saves.
const ALONE: usize = 8192;

/// Storage that is reused from call to call.
#[derive(Default)]
pub(crate) struct InputBuffers {
    values: Vec<f32>,
    blocks: Vec<QuantBlock>,
    wide: Vec<WideBlock>,
}

/// Prepared rows.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// `[rows, cols]`, for weights of floats; empty when there are none.
    pub(crate) values: &'a [f32],
    /// `[rows, cols / 32]`, for weights of fewer than eight bits; empty when there are none.
    pub(crate) blocks: &'a [QuantBlock],
    /// `[rows, cols / 32]`, for weights of eight bits; empty when there are none.
    pub(crate) wide: &'a [WideBlock],
}

impl Inputs<'_> {
    /// Blocks of a row.
    pub(crate) fn row_blocks(&self) -> usize {
        self.cols / BLOCK
    }

    /// Bytes that a product reads of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        let blocks = size_of_val(self.blocks) + size_of_val(self.wide);
        ((size_of_val(self.values) + blocks) / self.rows.max(1)).max(1)
    }
}

/// Forms of input rows that weights ask for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Forms {
    values: bool,
    blocks: bool,
    wide: bool,
}

impl Forms {
    /// Those that any of `parts` asks for.
    pub(crate) fn of<'p>(parts: impl IntoIterator<Item = &'p PackedPart>) -> Self {
        let mut forms = Self::default();
        for kind in parts.into_iter().map(|part| part.kind) {
            forms.values |= !kind.is_quantized();
            forms.blocks |= kind.takes_bytes();
            forms.wide |= kind.takes_words();
        }
        forms
    }
}

/// Rows of `cols` elements, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) cols: usize,
}

impl<'a> Matrix<'a> {
    /// The rows of `tensor` in use.
    pub(crate) fn of(tensor: &'a Tensor) -> Self {
        Self { values: host::rows(tensor), cols: tensor.cols() }
    }
}

/// Which rows to prepare, and how.
pub(crate) struct Request<'a> {
    pub(crate) x: Matrix<'a>,
    /// Rows of `x`; all of them when absent.
    pub(crate) rows: Option<&'a [usize]>,
    pub(crate) pre: Pre<'a>,
}

impl<'a> Request<'a> {
    /// Rows to prepare.
    fn len(&self) -> usize {
        self.rows.map_or(self.x.values.len() / self.x.cols, <[usize]>::len)
    }

    /// Row `index` of the request.
    fn row(&self, index: usize) -> &'a [f32] {
        let (row, cols) = (self.rows.map_or(index, |rows| rows[index]), self.x.cols);
        &self.x.values[row * cols..][..cols]
    }

    /// Whether the rows of `x` can be read where they are.
    fn in_place(&self) -> bool {
        self.rows.is_none() && matches!(self.pre, Pre::None)
    }
}

impl InputBuffers {
    /// Prepares the rows that `request` names in the forms `forms`.
    pub(crate) fn prepare<'a>(
        &'a mut self,
        backend: &CpuBackend,
        forms: Forms,
        request: &Request<'a>,
    ) -> Inputs<'a> {
        let (rows, cols) = (request.len(), request.x.cols);
        let copied = !request.in_place() && (forms.values || !matches!(request.pre, Pre::None));
        let blocks = |wanted| if wanted { rows * cols / BLOCK } else { 0 };
        let values = room(&mut self.values, if copied { rows * cols } else { 0 });
        let narrow = room(&mut self.blocks, blocks(forms.blocks));
        let wide = room(&mut self.wide, blocks(forms.wide));
        fill(backend, request, values, narrow, wide);
        let values = if copied || !forms.values { values } else { request.x.values };
        Inputs { rows, cols, values, blocks: narrow, wide }
    }
}

/// The first `len` elements, which hold leftovers.
pub(crate) fn room<T: Default + Clone>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

fn fill(
    backend: &CpuBackend,
    request: &Request<'_>,
    values: &mut [f32],
    blocks: &mut [QuantBlock],
    wide: &mut [WideBlock],
) {
    let (rows, cols) = (request.len(), request.x.cols);
    if rows == 0 || values.is_empty() && blocks.is_empty() && wide.is_empty() {
        return;
    }
    let (values, blocks, wide) = (Rows::new(values, rows), Rows::new(blocks, rows), Rows::new(wide, rows));
    let norm = match request.pre {
        Pre::None => None,
        Pre::RmsNorm { weight, eps } => Some((host::rows(weight), eps)),
    };
    let prepare = |range: std::ops::Range<usize>| {
        for row in range {
            // SAFETY: every row is prepared once.
            let (values, blocks, wide) = unsafe { (values.row(row), blocks.row(row), wide.row(row)) };
            rows::prepare(backend.isa, request.row(row), norm, rows::Prepared { values, blocks, wide });
        }
    };
    if rows == 1 || rows * cols <= ALONE {
        return prepare(0..rows);
    }
    backend.pool.split(rows, &|_, piece| prepare(piece));
}

/// Rows that threads write at the same time.
struct Rows<'a, T> {
    all: Disjoint<'a, T>,
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    fn new(all: &'a mut [T], rows: usize) -> Self {
        Self { width: all.len() / rows, all: Disjoint::new(all) }
    }

    /// # Safety
    /// A row is in use once at a time.
    unsafe fn row(&self, row: usize) -> &'a mut [T] {
        // SAFETY: rows do not overlap, and the caller uses each once.
        unsafe { self.all.piece(row * self.width..(row + 1) * self.width) }
    }
}
