//! Operations that work on each element alone.

use dflash_tensor::{Activation, Pre, Tensor};

use crate::disjoint::Disjoint;
use crate::{CpuBackend, Isa, host, lanes, math, rows};

/// Elements below which the calling thread works alone: a region costs more than it saves.
const ALONE: usize = 16_384;

/// [`dflash_tensor::Backend::gate`].
pub(crate) fn gate(backend: &CpuBackend, activation: Activation, gate: &Tensor, x: &mut Tensor) {
    assert_eq!(gate.rows(), x.rows(), "a gate for every row");
    let (cols, width, isa) = (x.cols(), gate.cols(), backend.isa);
    assert!(width == cols || width == 1, "a gate of {width} columns for rows of {cols}");
    let gates = host::rows(gate);
    each_row(backend, x, &|row, x| match width {
        1 => {
            let factor = math::activate(activation, gates[row]);
            x.iter_mut().for_each(|x| *x *= factor);
        }
        _ => lanes::gate(isa, activation, &gates[row * cols..][..cols], x),
    });
}

/// [`dflash_tensor::Backend::add`].
pub(crate) fn add(backend: &CpuBackend, x: &Tensor, pre: Pre<'_>, out: &mut Tensor) {
    assert_eq!((x.rows(), x.cols()), (out.rows(), out.cols()), "shapes of summands");
    let (cols, isa, values) = (x.cols(), backend.isa, host::rows(x));
    each_row(backend, out, &|row, out| add_row(isa, &values[row * cols..][..cols], pre, out));
}

fn add_row(isa: Isa, x: &[f32], pre: Pre<'_>, out: &mut [f32]) {
    match pre {
        Pre::None => out.iter_mut().zip(x).for_each(|(out, x)| *out += x),
        Pre::RmsNorm { weight, eps } => rows::add_normalised(isa, x, (host::rows(weight), eps), out),
    }
}

/// [`dflash_tensor::Backend::scale`].
pub(crate) fn scale(backend: &CpuBackend, factor: f32, x: &mut Tensor) {
    each_row(backend, x, &|_, x| x.iter_mut().for_each(|x| *x *= factor));
}

/// [`dflash_tensor::Backend::softcap`].
pub(crate) fn softcap(backend: &CpuBackend, cap: f32, x: &mut Tensor) {
    each_row(backend, x, &|_, x| lanes::softcap(backend.isa, cap, x));
}

/// [`dflash_tensor::Backend::columns`].
pub(crate) fn columns(x: &Tensor, col: usize, out: &mut Tensor) {
    let (cols, width) = (x.cols(), out.cols());
    assert!(col + width <= cols, "columns {col}..{} of {cols}", col + width);
    out.set_rows(x.rows());
    let rows = host::rows(x).chunks_exact(cols).zip(host::rows_mut(out).chunks_exact_mut(width));
    rows.for_each(|(x, out)| out.copy_from_slice(&x[col..][..width]));
}

/// Runs `body(row, values)` for every row of `x`.
fn each_row(backend: &CpuBackend, x: &mut Tensor, body: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let (rows, cols) = (x.rows(), x.cols());
    let values = host::rows_mut(x);
    if rows <= 1 || values.len() < ALONE {
        return values.chunks_exact_mut(cols).enumerate().for_each(|(row, values)| body(row, values));
    }
    let values = Disjoint::new(values);
    backend.pool.split(rows, &|_, own| {
        for row in own {
            // SAFETY: rows do not overlap, and each belongs to one thread.
            body(row, unsafe { values.piece(row * cols..(row + 1) * cols) });
        }
    });
}
