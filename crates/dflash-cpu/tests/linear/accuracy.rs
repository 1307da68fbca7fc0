use dflash_cpu::CpuBackend;
use dflash_tensor::{Activation, Backend, Format, Pre, Tail};

use crate::matrix::{FORMATS, Matrix, Noise, biased, widths};
use crate::tensor;

const ROWS: usize = 3;

fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::Bf16)
}

/// What the product is in f64, and how far from it rounding may lead.
fn product(matrix: &Matrix, row: usize, x: &[f64]) -> (f64, f64) {
    let weights = matrix.row(row);
    let exact: f64 = weights.iter().zip(x).map(|(w, x)| w * x).sum();
    let mut bound = 1e-6 * weights.iter().zip(x).map(|(w, x)| (w * x).abs()).sum::<f64>() + 1e-6;
    if !is_float(matrix.format) {
        for (weights, x) in weights.chunks(32).zip(x.chunks(32)) {
            let step = x.iter().fold(0.0, |a: f64, x| a.max(x.abs())) / 127.0;
            // Half a step per activation, and rounding of the larger terms that affine formats subtract.
            bound += weights.iter().map(|w| w.abs() * step * 0.5001).sum::<f64>() + 1e-4 * step;
        }
    }
    let bias = matrix.bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]));
    (exact + bias, bound)
}

fn normalized(x: &[f32], gain: &[f32]) -> Vec<f64> {
    let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
    let inverse = 1.0 / (mean + 1e-5).sqrt();
    x.iter().zip(gain).map(|(&x, &gain)| f64::from(x) * inverse * f64::from(gain)).collect()
}

#[test]
fn products_are_close_to_exact_ones() {
    let backend = CpuBackend::detect();
    for format in FORMATS {
        for cols in widths(format) {
            let matrix = biased(Matrix::new(format, 37, cols, 11));
            let (x, gain) = (Noise(1).numbers(ROWS * cols), Noise(2).numbers(cols));
            let (input, norm) = (tensor(&backend, ROWS, &x), tensor(&backend, 1, &gain));
            let weight = backend.pack(&[matrix.part()]).expect("whole blocks");
            let mut out = backend.tensor(ROWS, 37);
            let pre = Pre::RmsNorm { weight: &norm, eps: 1e-5 };
            backend.linear(&weight, &input, pre, Tail::Store, &mut [&mut out]);
            for row in 0..ROWS {
                let x = normalized(&x[row * cols..][..cols], &gain);
                for (output, &found) in backend.read(&out, row).iter().enumerate() {
                    let (exact, bound) = product(&matrix, output, &x);
                    let error = (f64::from(found) - exact).abs();
                    assert!(error <= bound, "{format} {cols}: {found} for {exact}, bound {bound}");
                }
            }
        }
    }
}

#[test]
fn gated_products_and_residuals_are_close_to_exact_ones() {
    let (backend, cols) = (CpuBackend::detect(), 96);
    let (gate, up) = (Matrix::new(Format::F32, 19, cols, 1), biased(Matrix::new(Format::Bf16, 19, cols, 2)));
    let x = Noise(1).numbers(cols);
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let input = tensor(&backend, 1, &x);
    let weight = backend.pack(&[gate.part(), up.part()]).expect("whole blocks");
    let mut out = backend.tensor(1, 19);
    backend.linear(&weight, &input, Pre::None, Tail::Glu(Activation::Silu), &mut [&mut out]);
    let (mut a, mut b) = (tensor(&backend, 1, &[1.0; 19]), tensor(&backend, 1, &[2.0; 19]));
    backend.linear(&weight, &input, Pre::None, Tail::Add, &mut [&mut a, &mut b]);
    for output in 0..19 {
        let (gate, up) = (product(&gate, output, &wide).0, product(&up, output, &wide).0);
        let gated = gate / (1.0 + (-gate).exp()) * up;
        assert!((f64::from(backend.read(&out, 0)[output]) - gated).abs() < 1e-4);
        assert!((f64::from(backend.read(&a, 0)[output]) - gate - 1.0).abs() < 1e-4);
        assert!((f64::from(backend.read(&b, 0)[output]) - up - 2.0).abs() < 1e-4);
    }
}

#[test]
fn no_rows_are_no_work() {
    let backend = CpuBackend::detect();
    let weight = backend.pack(&[Matrix::new(Format::Q8_0, 20, 64, 1).part()]).expect("whole blocks");
    let mut x = backend.tensor(2, 64);
    x.set_rows(0);
    let mut out = backend.tensor(2, 20);
    backend.linear(&weight, &x, Pre::None, Tail::Store, &mut [&mut out]);
    assert_eq!(out.rows(), 0);
}
