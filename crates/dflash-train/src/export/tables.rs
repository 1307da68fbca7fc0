use std::sync::Arc;

use dflash_models::Target;
use dflash_tensor::Weight;

use crate::Matrix;

/// Rows that are unpacked at a time.
const CHUNK: usize = 1024;

/// Rows `0..count` of the target's embedding, as its first layer sees them.
pub(super) fn embedding(target: &dyn Target, count: usize) -> Matrix {
    let ids = (0..count as u32).collect::<Vec<_>>();
    rows(target, target.embedding(), &ids, target.embedding_scale())
}

/// Rows of the target's head.
pub(super) fn head(target: &dyn Target, ids: &[u32]) -> Matrix {
    rows(target, target.head(), ids, 1.0)
}

/// Rows of a packed table in f32.
fn rows(target: &dyn Target, table: &Arc<Weight>, ids: &[u32], scale: f32) -> Matrix {
    let (backend, cols) = (target.backend(), table.cols());
    let mut out = backend.tensor(CHUNK, cols);
    let mut values = Vec::with_capacity(ids.len() * cols);
    for ids in ids.chunks(CHUNK) {
        out.set_rows(ids.len());
        backend.embed(table, ids, scale, &mut out);
        (0..ids.len()).for_each(|row| values.extend(backend.read(&out, row)));
    }
    Matrix { shape: vec![ids.len(), cols], values }
}
