use dflash_models::Target;
use dflash_tensor::Weight;

use crate::Matrix;

/// Rows that are read at a time.
const ROWS: usize = 1024;

/// The target's embedding and head in numbers, as they are served: a draft is trained with both, and changes neither.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetTables {
    /// `[ids, hidden]`, the target's scale in it.
    pub embedding: Matrix,
    /// `[ids, hidden]`.
    pub head: Matrix,
    /// `[hidden]`: gains of the norm before the head.
    pub norm: Option<Vec<f32>>,
    /// `cap` of the logits `cap * tanh(l / cap)`.
    pub softcap: Option<f32>,
}

impl TargetTables {
    /// The rows of `embedding` and `head` that these ids name, in that order.
    ///
    /// # Panics
    /// When an id is not one of the target's.
    pub fn read(target: &dyn Target, embedding: &[u32], head: &[u32]) -> Self {
        Self {
            embedding: rows(target, target.embedding(), embedding, target.embedding_scale()),
            head: rows(target, target.head(), head, 1.0),
            norm: target.final_norm(),
            softcap: target.softcap(),
        }
    }
}

fn rows(target: &dyn Target, table: &Weight, ids: &[u32], scale: f32) -> Matrix {
    let (backend, cols) = (target.backend(), table.cols());
    let (mut values, mut out) = (Vec::with_capacity(ids.len() * cols), backend.tensor(ROWS, cols));
    for ids in ids.chunks(ROWS) {
        backend.embed(table, ids, scale, &mut out);
        (0..ids.len()).for_each(|row| values.extend(backend.read(&out, row)));
    }
    Matrix { shape: vec![ids.len(), cols], values }
}
