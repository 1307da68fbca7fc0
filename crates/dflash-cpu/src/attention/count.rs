use dflash_tensor::{AttentionSpec, Batch};
use half::f16;

use super::plan::Plan;
use super::visible::Visible;
use crate::work::{Arithmetic, Meter};

/// Counts the keys and values that any row of a span sees, and the products of every row with those it sees. Of
/// a tree's own rows those of its longest path are counted.
pub(super) fn count(meter: &Meter, spec: &AttentionSpec, batch: &Batch, plan: &Plan) {
    let mut keys = 0;
    for span in batch.spans() {
        let rows = &plan.rows[span.first_row..][..span.rows];
        keys += rows.iter().fold(Visible::none(), |hull, row| hull.hull(&row.visible)).len();
    }
    let seen: usize = plan.rows.iter().map(|row| row.visible.len()).sum();
    let bytes = keys * spec.kv.heads * spec.kv.dim * 2 * size_of::<f16>();
    meter.add(bytes, Arithmetic::F32, 2 * seen * spec.heads * spec.kv.dim);
}
