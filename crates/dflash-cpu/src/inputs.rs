//! Input rows of a linear operation, normalised and quantised once per call.

use dflash_tensor::{Pre, Tensor};

use crate::disjoint::Disjoint;
use crate::pack::{BLOCK, PackedPart};
use crate::quantize::{QuantBlock, WideBlock};
use crate::rows::Prepared;
use crate::{CpuBackend, Isa, host, rows};

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
    /// Those that any of `parts` asks for. AVX-512 multiplies bytes with bytes.
    pub(crate) fn of<'p>(isa: Isa, parts: impl IntoIterator<Item = &'p PackedPart>) -> Self {
        let mut forms = Self::default();
        for kind in parts.into_iter().map(|part| part.kind) {
            forms.values |= !kind.is_quantized();
            let words = kind.takes_words() && isa != Isa::Avx512;
            forms.blocks |= kind.is_quantized() && !words;
            forms.wide |= words;
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
        let mut all = self.room(rows, cols, Forms { values: copied, ..forms });
        fill(backend, request, &mut all);
        let values = if copied || !forms.values { all.values } else { request.x.values };
        Inputs { rows, cols, values, blocks: all.blocks, wide: all.wide }
    }

    /// Prepares every row of `x` once, for all of its places: `places` is `[rows, n]` and names every row of
    /// the result once.
    pub(crate) fn prepare_copies<'a>(
        &'a mut self,
        backend: &CpuBackend,
        forms: Forms,
        x: Matrix<'_>,
        places: &[usize],
    ) -> Inputs<'a> {
        let (rows, cols) = (places.len(), x.cols);
        let mut all = self.room(rows, cols, forms);
        fill_copies(backend, x, places, &mut all);
        Inputs { rows, cols, values: all.values, blocks: all.blocks, wide: all.wide }
    }

    /// Storage for the forms `forms` of some rows, which holds leftovers.
    fn room(&mut self, rows: usize, cols: usize, forms: Forms) -> Prepared<'_> {
        let blocks = |wanted| if wanted { rows * cols / BLOCK } else { 0 };
        Prepared {
            values: room(&mut self.values, if forms.values { rows * cols } else { 0 }),
            blocks: room(&mut self.blocks, blocks(forms.blocks)),
            wide: room(&mut self.wide, blocks(forms.wide)),
        }
    }
}

/// The first `len` elements, which hold leftovers.
pub(crate) fn room<T: Default + Clone>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

fn fill(backend: &CpuBackend, request: &Request<'_>, all: &mut Prepared<'_>) {
    let (rows, cols) = (request.len(), request.x.cols);
    if rows == 0 || all.is_empty() {
        return;
    }
    let places = Places::new(all, rows);
    let norm = match request.pre {
        Pre::None => None,
        Pre::RmsNorm { weight, eps } => Some((host::rows(weight), eps)),
    };
    each_row(backend, rows, cols, &|row| {
        // SAFETY: every row is prepared once.
        rows::prepare(backend.isa, request.row(row), norm, unsafe { places.row(row) });
    });
}

fn fill_copies(backend: &CpuBackend, x: Matrix<'_>, places: &[usize], all: &mut Prepared<'_>) {
    let rows = x.values.len() / x.cols;
    let (all, copies) = (Places::new(all, places.len()), places.len() / rows);
    each_row(backend, rows, x.cols, &|row| {
        // SAFETY: `places` names every place once.
        let mut own = places[row * copies..][..copies].iter().map(|&place| unsafe { all.row(place) });
        let Some(mut first) = own.next() else { return };
        rows::prepare(backend.isa, &x.values[row * x.cols..][..x.cols], None, first.reborrow());
        own.for_each(|mut copy| copy.copy_from(&first));
    });
}

/// Calls `body(row)` for every row of `cols` elements.
fn each_row(backend: &CpuBackend, rows: usize, cols: usize, body: &(dyn Fn(usize) + Sync)) {
    if rows == 1 || rows * cols <= ALONE {
        return (0..rows).for_each(body);
    }
    backend.pool.split(rows, &|_, own| own.for_each(body));
}

/// Places of prepared rows that threads fill at the same time.
struct Places<'a> {
    values: Rows<'a, f32>,
    blocks: Rows<'a, QuantBlock>,
    wide: Rows<'a, WideBlock>,
}

impl<'a> Places<'a> {
    fn new(all: &'a mut Prepared<'_>, rows: usize) -> Self {
        let Prepared { values, blocks, wide } = all;
        Self { values: Rows::new(values, rows), blocks: Rows::new(blocks, rows), wide: Rows::new(wide, rows) }
    }

    /// # Safety
    /// A row is in use once at a time.
    unsafe fn row(&self, row: usize) -> Prepared<'a> {
        // SAFETY: the caller's promise.
        let (values, blocks, wide) =
            unsafe { (self.values.row(row), self.blocks.row(row), self.wide.row(row)) };
        Prepared { values, blocks, wide }
    }
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
