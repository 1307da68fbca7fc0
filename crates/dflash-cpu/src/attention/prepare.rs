//! Norm and rotary embedding of the heads of rows. Plain operations, no fused ones: the bits are the same
//! whatever the compiler makes of them.

use dflash_tensor::{HeadNorm, Rope};

use super::plan::Row;
use crate::disjoint::Disjoint;
use crate::host;
use crate::pool::Pool;

/// From this many elements on threads share the work.
const PARALLEL: usize = 1 << 15;

/// Applies `norm` and `rope` to every head of `dim` in `data`, one row per entry of `rows`.
pub(crate) fn heads(
    pool: &Pool,
    norm: Option<&HeadNorm>,
    rope: &Rope,
    dim: usize,
    rows: &[Row],
    data: &mut [f32],
) {
    assert!(rope.dims() <= dim, "{} rotary dimensions in a head of {dim}", rope.dims());
    let gain = norm.map(|norm| (host::rows(&norm.weight), norm.eps));
    assert!(gain.is_none_or(|(gain, _)| gain.len() == dim), "one gain per dimension of a head");
    if rows.is_empty() {
        return;
    }
    if data.len() < PARALLEL || pool.threads() == 1 {
        return some(gain, rope, dim, rows, data);
    }
    let cols = data.len() / rows.len();
    let data = Disjoint::new(data);
    pool.split(rows.len(), &|_, own| {
        // SAFETY: pieces do not overlap.
        let piece = unsafe { data.piece(own.start * cols..own.end * cols) };
        some(gain, rope, dim, &rows[own], piece);
    });
}

fn some(gain: Option<(&[f32], f32)>, rope: &Rope, dim: usize, rows: &[Row], data: &mut [f32]) {
    if rows.is_empty() {
        return;
    }
    let cols = data.len() / rows.len();
    for (row, data) in rows.iter().zip(data.chunks_exact_mut(cols)) {
        let (cos, sin) = rope.at(row.position);
        for head in data.chunks_exact_mut(dim) {
            if let Some((gain, eps)) = gain {
                normalise(head, gain, eps);
            }
            rotate(head, cos, sin);
        }
    }
}

fn normalise(head: &mut [f32], gain: &[f32], eps: f32) {
    let mut lanes = [0.0_f32; 8];
    for chunk in head.chunks(8) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += x * x);
    }
    let sum = lanes.into_iter().reduce(|a, b| a + b).expect("eight lanes");
    let root = (sum / head.len() as f32 + eps).sqrt();
    head.iter_mut().zip(gain).for_each(|(x, gain)| *x = *x / root * gain);
}

fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (low, rest) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in low.iter_mut().zip(rest).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
