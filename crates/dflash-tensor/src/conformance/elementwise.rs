//! Operations on each element alone.

use super::data::{Exact, Random, all, assert_bits, assert_close, filled, normalised, wide};
use crate::{Activation, Backend, Pre, Tensor};

const SHAPES: [(usize, usize); 5] = [(1, 1), (1, 37), (3, 64), (17, 100), (40, 1030)];

/// The activation in f64.
pub(super) fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh())
        }
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
    }
}

/// Runs `op` on the whole and row by row, and checks both against `exact`, which takes the index of an element.
fn check(
    backend: &dyn Backend,
    cols: usize,
    before: &[f32],
    op: &dyn Fn(usize, usize, &mut Tensor),
    exact: &dyn Fn(usize) -> f64,
    what: &str,
) {
    let rows = before.len() / cols;
    let mut whole = filled(backend, cols, before);
    op(0, rows, &mut whole);
    let found = all(backend, &whole);
    let expected = (0..before.len()).map(|i| Exact { value: exact(i), error: 2e-6 * (exact(i).abs() + 1.0) });
    assert_close(&found, &expected.collect::<Vec<_>>(), what);
    let alone = (0..rows).flat_map(|row| {
        let mut one = filled(backend, cols, &before[row * cols..][..cols]);
        op(row, 1, &mut one);
        all(backend, &one)
    });
    assert_bits(&alone.collect::<Vec<_>>(), &found, &format!("{what}, row by row"));
}

/// [`Backend::gate`], [`Backend::add`], [`Backend::scale`] and [`Backend::softcap`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn elementwise(backend: &dyn Backend) {
    let mut random = Random(31);
    for (rows, cols) in SHAPES {
        let x = random.floats(rows * cols);
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::Sigmoid] {
            for width in [1, cols] {
                let gates: Vec<f32> = random.floats(rows * width).iter().map(|x| 4.0 * x).collect();
                let op = |row: usize, rows: usize, x: &mut Tensor| {
                    let gate = filled(backend, width, &gates[row * width..][..rows * width]);
                    backend.gate(activation, &gate, x);
                };
                let exact = |i: usize| {
                    let at = if width == 1 { i / cols } else { i };
                    activated(activation, f64::from(gates[at])) * f64::from(x[i])
                };
                check(backend, cols, &x, &op, &exact, &format!("{activation:?} gate of {width}"));
            }
        }
        let scaled = |i: usize| -1.7 * f64::from(x[i]);
        check(backend, cols, &x, &|_, _, x| backend.scale(-1.7, x), &scaled, "scale");
        let capped = |i: usize| 1.5 * (f64::from(x[i]) / 1.5).tanh();
        check(backend, cols, &x, &|_, _, x| backend.softcap(1.5, x), &capped, "softcap");
        sums(backend, &mut random, cols, &x);
    }
}

fn sums(backend: &dyn Backend, random: &mut Random, cols: usize, before: &[f32]) {
    let (x, gain, eps) = (random.floats(before.len()), random.floats(cols), 1e-5);
    let weight = filled(backend, cols, &gain);
    let normal: Vec<f64> = x.chunks(cols).flat_map(|x| normalised(&wide(x), &gain, eps)).collect();
    for norm in [false, true] {
        let pre = if norm { Pre::RmsNorm { weight: &weight, eps } } else { Pre::None };
        let op = |row: usize, rows: usize, out: &mut Tensor| {
            backend.add(&filled(backend, cols, &x[row * cols..][..rows * cols]), pre, out);
        };
        let summand = |i: usize| if norm { normal[i] } else { f64::from(x[i]) };
        let exact = |i: usize| f64::from(before[i]) + summand(i);
        check(backend, cols, before, &op, &exact, &format!("sum, norm {norm}"));
    }
}

/// [`Backend::columns`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn columns(backend: &dyn Backend) {
    let mut random = Random(32);
    let x = random.floats(5 * 24);
    for (col, width) in [(0, 24), (8, 8), (23, 1), (3, 13)] {
        let mut out = backend.tensor(7, width);
        backend.columns(&filled(backend, 24, &x), col, &mut out);
        assert_eq!(out.rows(), 5, "rows of the output");
        let expected: Vec<f32> = x.chunks(24).flat_map(|row| row[col..col + width].to_vec()).collect();
        assert_bits(&all(backend, &out), &expected, "columns");
    }
}

/// [`Backend::rms_norm`] of pieces of rows.
///
/// # Panics
/// When the backend breaks its contract.
pub fn rms_norm_pieces(backend: &dyn Backend) {
    let mut random = Random(33);
    for (width, pieces) in [(8, 3), (64, 2), (20, 5)] {
        let (x, gain) = (random.floats(4 * width * pieces), random.floats(width));
        let weight = filled(backend, width, &gain);
        let (mut whole, mut single) = (backend.tensor(4, width * pieces), backend.tensor(4 * pieces, width));
        backend.rms_norm(&filled(backend, width * pieces, &x), &weight, 1e-6, &mut whole);
        backend.rms_norm(&filled(backend, width, &x), &weight, 1e-6, &mut single);
        assert_bits(&all(backend, &whole), &all(backend, &single), "norm of pieces");
    }
}
