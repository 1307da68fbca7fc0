use std::sync::Arc;

use dflash_tensor::{Backend, Tensor};

/// Scratch of a forward pass, reused from step to step; it grows when a pass has more rows than ever before.
///
/// After a forward pass it holds the last layer's output of every row until the next one begins.
pub struct Workspace {
    backend: Arc<dyn Backend>,
    /// Residual stream `[rows, hidden]`.
    pub(crate) h: Tensor,
    /// Tensors that nobody uses now.
    free: Vec<Tensor>,
}

impl Workspace {
    /// For a residual stream of width `hidden`, with room for one row.
    pub(crate) fn new(backend: Arc<dyn Backend>, hidden: usize) -> Self {
        let h = backend.tensor(1, hidden);
        Self { h, free: Vec::new(), backend }
    }

    /// Rows of the last pass.
    pub fn rows(&self) -> usize {
        self.h.rows()
    }

    /// Sets the residual stream to `rows` rows.
    pub(crate) fn begin(&mut self, rows: usize) {
        grow(self.backend.as_ref(), &mut self.h, rows);
    }

    /// A tensor of `cols` columns with as many rows as the pass; it holds leftovers.
    pub(crate) fn take(&mut self, cols: usize) -> Tensor {
        let found = self.free.iter().position(|tensor| tensor.cols() == cols);
        let mut tensor =
            found.map_or_else(|| self.backend.tensor(1, cols), |index| self.free.swap_remove(index));
        grow(self.backend.as_ref(), &mut tensor, self.h.rows());
        tensor
    }

    /// Gives tensors back that were taken.
    pub(crate) fn put(&mut self, tensors: impl IntoIterator<Item = Tensor>) {
        self.free.extend(tensors);
    }
}

/// Sets the rows of a tensor, with a larger one when they do not fit. Contents are lost when it grows.
pub(crate) fn grow(backend: &dyn Backend, tensor: &mut Tensor, rows: usize) {
    if tensor.capacity() < rows {
        *tensor = backend.tensor(rows, tensor.cols());
    }
    tensor.set_rows(rows);
}
