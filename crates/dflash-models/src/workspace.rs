use std::sync::Arc;

use dflash_tensor::{Backend, Tensor};

/// Scratch of a dense decoder, reused from step to step; it grows when a pass has more rows than ever before.
///
/// After a forward pass it holds the last layer's output of every row until the next one begins.
pub struct Workspace {
    backend: Arc<dyn Backend>,
    /// Residual stream `[rows, hidden]`.
    pub(crate) h: Tensor,
    /// Queries `[rows, heads * dim]`.
    pub(crate) q: Tensor,
    /// Keys `[rows, kv heads * dim]`.
    pub(crate) k: Tensor,
    /// Values `[rows, kv heads * dim]`.
    pub(crate) v: Tensor,
    /// Output of attention `[rows, heads * dim]`.
    pub(crate) mixed: Tensor,
    /// Gated activations `[rows, ffn]`.
    pub(crate) act: Tensor,
}

/// Columns of the scratch tensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widths {
    pub(crate) hidden: usize,
    pub(crate) q: usize,
    pub(crate) kv: usize,
    pub(crate) ffn: usize,
}

impl Workspace {
    /// With room for one row.
    pub(crate) fn new(backend: Arc<dyn Backend>, widths: Widths) -> Self {
        let tensor = |cols| backend.tensor(1, cols);
        let Widths { hidden, q, kv, ffn } = widths;
        let [h, k, v] = [hidden, kv, kv].map(tensor);
        let [q, mixed, act] = [q, q, ffn].map(tensor);
        Self { h, q, k, v, mixed, act, backend }
    }

    /// Makes room for `rows` rows now, so that a later pass does not allocate. Contents are lost when it grows.
    pub fn reserve(&mut self, rows: usize) {
        if rows <= self.h.capacity() {
            return;
        }
        let Self { backend, h, q, k, v, mixed, act } = self;
        [h, q, k, v, mixed, act].into_iter().for_each(|tensor| grow(backend.as_ref(), tensor, rows));
    }

    /// Rows of the last pass.
    pub fn rows(&self) -> usize {
        self.h.rows()
    }

    /// Sets all tensors to `rows` rows.
    pub(crate) fn begin(&mut self, rows: usize) {
        self.reserve(rows);
        let Self { h, q, k, v, mixed, act, .. } = self;
        [h, q, k, v, mixed, act].into_iter().for_each(|tensor| tensor.set_rows(rows));
    }
}

/// Sets the rows of a tensor, with a larger one when they do not fit. Contents are lost when it grows.
pub(crate) fn grow(backend: &dyn Backend, tensor: &mut Tensor, rows: usize) {
    if tensor.capacity() < rows {
        *tensor = backend.tensor(rows, tensor.cols());
    }
    tensor.set_rows(rows);
}
