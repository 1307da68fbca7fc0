//! Products with packed weights.

use std::slice::from_ref;

use super::data::{Exact, Random, all, assert_close, filled, normalised, wide};
use super::decode::{FORMATS, Matrix, is_quantised};
use super::elementwise::activated;
use crate::{Activation, Backend, BackendError, Format, Part, PartData, Pre, Tail, Tensor};

/// Relative error of a sum in single precision.
const ROUNDING: f64 = 2e-6;

/// The input rows as the product sees them.
pub(super) fn inputs(x: &[f32], cols: usize, norm: Option<(&[f32], f32)>) -> Vec<Vec<f64>> {
    let row = |x: &[f32]| match norm {
        Some((weight, eps)) => normalised(&wide(x), weight, eps),
        None => wide(x),
    };
    x.chunks(cols).map(row).collect()
}

/// `matrix · x + bias`. A quantised weight may meet activations rounded to eight bits per 32 of them.
pub(super) fn product(matrix: &Matrix, x: &[f64]) -> Vec<Exact> {
    let rounding = |x: &[f64]| {
        let largest = x.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
        vec![if is_quantised(matrix.format) { largest / 127.0 * 0.51 } else { 0.0 }; x.len()]
    };
    let errors: Vec<f64> = x.chunks(32).flat_map(rounding).collect();
    let output = |row| {
        let weights = matrix.row(row);
        let mut exact = Exact { value: matrix.bias(row), error: ROUNDING * (1e-3 + matrix.bias(row).abs()) };
        for ((w, x), error) in weights.iter().zip(x).zip(&errors) {
            exact.value += w * x;
            exact.error += w.abs() * (error + ROUNDING * x.abs()) + ROUNDING * 0.3 * x.abs();
        }
        exact
    };
    (0..matrix.rows).map(output).collect()
}

/// `act(gate) * up`; slopes of activations stay below 1.13.
fn gated(activation: Activation, gate: Exact, up: Exact) -> Exact {
    let value = activated(activation, gate.value);
    let slope = 1.13 * gate.error + 1e-6 * value.abs() + 1e-7;
    let error = slope * up.value.abs() + value.abs() * up.error + slope * up.error + 1e-9;
    Exact { value: value * up.value, error }
}

fn check(
    backend: &dyn Backend,
    matrices: &[Matrix],
    rows: usize,
    norm: bool,
    tail: Tail,
    random: &mut Random,
) {
    let cols = matrices[0].cols;
    let parts: Vec<Part<'_>> = matrices.iter().map(Matrix::part).collect();
    let weight = backend.pack(&parts).expect("formats of the suite");
    assert_eq!(weight.cols(), cols, "columns of the weight");
    assert!(weight.parts().iter().zip(matrices).all(|(part, matrix)| part.rows == matrix.rows), "its parts");
    let (x, gain, eps) = (random.floats(rows * cols), random.floats(cols), 1e-5);
    let gain_tensor = filled(backend, cols, &gain);
    let pre = if norm { Pre::RmsNorm { weight: &gain_tensor, eps } } else { Pre::None };
    let outputs = if matches!(tail, Tail::Glu(_)) { 1 } else { matrices.len() };
    let before: Vec<Vec<f32>> = matrices[..outputs].iter().map(|m| random.floats(rows * m.rows)).collect();
    let mut outs: Vec<Tensor> = before.iter().map(|data| filled(backend, data.len() / rows, data)).collect();
    if tail != Tail::Add {
        outs.iter_mut().for_each(|out| out.set_rows(rows + 1));
    }
    let x_tensor = filled(backend, cols, &x);
    backend.linear(&weight, &x_tensor, pre, tail, &mut outs.iter_mut().collect::<Vec<_>>());
    let inputs = inputs(&x, cols, norm.then_some((gain.as_slice(), eps)));
    for (index, out) in outs.iter().enumerate() {
        assert_eq!(out.rows(), rows, "rows of the output");
        let expected: Vec<Exact> = inputs
            .iter()
            .enumerate()
            .flat_map(|(row, x)| {
                let product = |part: usize| product(&matrices[part], x);
                let stored = |i: usize| f64::from(before[index][row * matrices[index].rows + i]);
                match tail {
                    Tail::Store => product(index),
                    Tail::Glu(activation) => {
                        let pairs = product(0).into_iter().zip(product(1));
                        pairs.map(|(gate, up)| gated(activation, gate, up)).collect()
                    }
                    Tail::Add => {
                        let add = |(i, exact): (usize, Exact)| Exact {
                            value: exact.value + stored(i),
                            error: exact.error + ROUNDING * stored(i).abs(),
                        };
                        product(index).into_iter().enumerate().map(add).collect()
                    }
                }
            })
            .collect();
        let what = format!("{:?} of {rows} rows by {} (part {index})", tail, matrices[index].format);
        assert_close(&all(backend, out), &expected, &what);
    }
}

/// [`Backend::pack`] and [`Backend::linear`]: every format, input, tail, bias, order and several parts.
///
/// # Panics
/// When the backend breaks its contract.
pub fn linear(backend: &dyn Backend) {
    let mut random = Random(6);
    for format in FORMATS {
        for (outputs, cols) in [(1, 128), (9, 256), (40, 640)] {
            let plain = Matrix::random(format, outputs, cols, &mut random);
            let decorated = Matrix::random(format, outputs, cols, &mut random).decorated(&mut random);
            for (rows, norm) in [(1, false), (5, true), (19, false)] {
                check(backend, from_ref(&plain), rows, norm, Tail::Store, &mut random);
                check(backend, from_ref(&decorated), rows, norm, Tail::Add, &mut random);
                let pair = [decorated.clone(), plain.clone()];
                let activation = if norm { Activation::GeluTanh } else { Activation::Silu };
                check(backend, &pair, rows, norm, Tail::Glu(activation), &mut random);
            }
        }
    }
    mixed_parts(backend, &mut random);
    odd_columns(backend, &mut random);
}

/// Parts of different formats and sizes that share an input.
fn mixed_parts(backend: &dyn Backend, random: &mut Random) {
    for first in 0..FORMATS.len() {
        let format = |offset: usize| FORMATS[(first + offset * 5) % FORMATS.len()];
        let parts = [
            Matrix::random(format(0), 24, 256, random).decorated(random),
            Matrix::random(format(1), 7, 256, random),
            Matrix::random(format(2), 8, 256, random).decorated(random),
        ];
        for rows in [1, 6] {
            check(backend, &parts, rows, true, Tail::Store, random);
            check(backend, &parts, rows, false, Tail::Add, random);
        }
    }
}

/// Input features that fill no vector.
fn odd_columns(backend: &dyn Backend, random: &mut Random) {
    for (format, cols) in [(Format::F32, 13), (Format::F16, 100), (Format::Bf16, 3), (Format::Q8_0, 32)] {
        let matrix = Matrix::random(format, 11, cols, random);
        check(backend, &[matrix], 3, true, Tail::Store, random);
    }
}

/// The errors of [`Backend::pack`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn pack_errors(backend: &dyn Backend) {
    let fails = |part: Part<'_>| backend.pack(&[part]).err().expect("a part that does not fit");
    let short = fails(Part::plain(Format::F16, 4, 8, &[0; 63]));
    assert!(matches!(short, BackendError::WrongLength { expected: 64, found: 63, .. }), "{short}");
    let ragged = fails(Part::plain(Format::Q4_0, 1, 40, &[0; 36]));
    assert!(matches!(ragged, BackendError::RaggedBlocks { cols: 40, block: 32, .. }), "{ragged}");
    let data = PartData::Affine { elements: &[0; 4], scales: &[], biases: &[] };
    let wrong = fails(Part { data, ..Part::plain(Format::F32, 1, 1, &[]) });
    assert!(matches!(wrong, BackendError::UnsupportedFormat(Format::F32)), "{wrong}");
}
