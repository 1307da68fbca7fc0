//! Products with packed weights.

use std::slice::from_ref;

use super::data::{Exact, Random, all, assert_close, filled, normalised, wide};
use super::decode::{FORMATS, Matrix, is_quantised, whole};
use super::elementwise::activated;
use crate::{Activation, AffineScale, Backend, BackendError, Format, Part, PartData, Pre, Tail, Tensor};

/// Relative error of a sum in single precision.
pub(super) const ROUNDING: f64 = 2e-6;

/// The input rows as the product sees them.
pub(super) fn inputs(x: &[f32], cols: usize, norm: Option<(&[f32], f32)>) -> Vec<Vec<f64>> {
    let row = |x: &[f32]| match norm {
        Some((weight, eps)) => normalised(&wide(x), weight, eps),
        None => wide(x),
    };
    x.chunks(cols).map(row).collect()
}

/// `matrix · x + bias`. A quantised weight may meet activations rounded to eight bits per 32 of them: to
/// multiples of their largest magnitude over 127.
pub(super) fn product(matrix: &Matrix, x: &[f64]) -> Vec<Exact> {
    let rounding = |x: &[f64]| {
        let step = x.iter().fold(0.0_f64, |max, x| max.max(x.abs())) / 127.0;
        let is_exact = !is_quantised(matrix.format) || x.iter().all(|x| x % step == 0.0);
        vec![if is_exact { 0.0 } else { step * 0.51 }; x.len()]
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
    (0..matrix.outputs()).map(output).collect()
}

/// `act(gate) * up`; slopes of activations stay below 1.13.
pub(super) fn gated(activation: Activation, gate: Exact, up: Exact) -> Exact {
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
    let x = random.floats(rows * matrices[0].cols);
    check_inputs(backend, matrices, &x, norm, tail, random);
}

fn check_inputs(
    backend: &dyn Backend,
    matrices: &[Matrix],
    x: &[f32],
    norm: bool,
    tail: Tail,
    random: &mut Random,
) {
    let cols = matrices[0].cols;
    let rows = x.len() / cols;
    let parts: Vec<Part<'_>> = matrices.iter().map(Matrix::part).collect();
    let weight = backend.pack(&parts).expect("formats of the suite");
    assert_eq!(weight.cols(), cols, "columns of the weight");
    assert!(
        weight.parts().iter().zip(matrices).all(|(part, matrix)| part.rows == matrix.outputs()),
        "its parts"
    );
    let (gain, eps) = (random.floats(cols), 1e-5);
    let gain_tensor = filled(backend, cols, &gain);
    let pre = if norm { Pre::RmsNorm { weight: &gain_tensor, eps } } else { Pre::None };
    let outputs = if matches!(tail, Tail::Glu(_)) { 1 } else { matrices.len() };
    let before: Vec<Vec<f32>> =
        matrices[..outputs].iter().map(|m| random.floats(rows * m.outputs())).collect();
    let mut outs: Vec<Tensor> = before.iter().map(|data| filled(backend, data.len() / rows, data)).collect();
    if tail != Tail::Add {
        outs.iter_mut().for_each(|out| out.set_rows(rows + 1));
    }
    let x_tensor = filled(backend, cols, x);
    backend.linear(&weight, &x_tensor, pre, tail, &mut outs.iter_mut().collect::<Vec<_>>());
    let inputs = inputs(x, cols, norm.then_some((gain.as_slice(), eps)));
    for (index, out) in outs.iter().enumerate() {
        assert_eq!(out.rows(), rows, "rows of the output");
        let expected: Vec<Exact> = inputs
            .iter()
            .enumerate()
            .flat_map(|(row, x)| {
                let product = |part: usize| product(&matrices[part], x);
                let stored = |i: usize| f64::from(before[index][row * matrices[index].outputs() + i]);
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
            let cols = whole(format, cols);
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
    exact_inputs(backend, &mut random);
    mixed_parts(backend, &mut random);
    odd_columns(backend, &mut random);
}

/// Inputs that eight bits hold exactly, so that the product is as exact as single precision allows: what a
/// wrong integer sum would be, the bound for rounded inputs may hide.
fn exact_inputs(backend: &dyn Backend, random: &mut Random) {
    for format in FORMATS {
        for (outputs, cols) in [(1, 128), (17, 256), (37, 768), (33, 2048)] {
            let matrix = Matrix::random(format, outputs, whole(format, cols), random).decorated(random);
            for rows in [1, 2, 3, 4, 6] {
                let x = exact_rows(rows * matrix.cols, random);
                check_inputs(backend, from_ref(&matrix), &x, false, Tail::Store, random);
            }
        }
    }
}

/// Multiples of 1/64 up to 127/64, which stands at least once in every 32.
fn exact_rows(count: usize, random: &mut Random) -> Vec<f32> {
    let mut integers: Vec<f32> = (0..count).map(|_| random.below(255) as f32 - 127.0).collect();
    for block in integers.chunks_mut(32) {
        block[random.below(32)] = if random.below(2) == 0 { 127.0 } else { -127.0 };
        // All of one sign now and then: the largest sums.
        if random.below(8) == 0 {
            block.fill(block.iter().copied().fold(0.0, f32::max).max(127.0));
        }
    }
    integers.iter().map(|integer| integer / 64.0).collect()
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

/// [`Part::order`]: some of the rows, one of them twice, with a bias for each output.
///
/// # Panics
/// When the backend breaks its contract.
pub fn pack_orders(backend: &dyn Backend) {
    let mut random = Random(12);
    for format in FORMATS {
        for rows in [1, 16, 17, 70] {
            let matrix = Matrix::random(format, rows, whole(format, 128), &mut random).gathered(&mut random);
            let outputs = rows.div_ceil(3) + 1;
            let weight = backend.pack(&[matrix.part()]).expect("a format of the suite");
            assert_eq!((weight.rows(), weight.parts()[0].rows), (outputs, outputs), "rows picked");
            check(backend, from_ref(&matrix), 3, false, Tail::Store, &mut random);
        }
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
    for (bits, group) in [(7, 32), (1, 64), (4, 16), (4, 256)] {
        let format = Format::Affine { bits, group, scale: AffineScale::F16 };
        let (elements, scales) = (vec![0; format.block_bytes()], [0; 2]);
        let data = PartData::Affine { elements: &elements, scales: &scales, biases: &scales };
        let part = Part { data, ..Part::plain(format, 1, group.into(), &[]) };
        assert_eq!(fails(part), BackendError::UnsupportedFormat(format), "no such format");
    }
}
