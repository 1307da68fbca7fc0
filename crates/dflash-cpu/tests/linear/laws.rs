use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Activation, Backend, Format, Pre, Tail, Tensor, Weight};

use crate::matrix::{FORMATS, Matrix, Noise, biased, widths};
use crate::{bits, scalar, tensor};

/// Rows of the first two parts, ragged in groups of outputs.
const ROWS: usize = 45;

/// One linear operation on given input rows.
struct Case<'a> {
    matrices: &'a [Matrix],
    norm: bool,
    tail: Tail,
}

impl Case<'_> {
    fn outputs(&self) -> Vec<usize> {
        let parts = if matches!(self.tail, Tail::Glu(_)) { &self.matrices[..1] } else { self.matrices };
        parts.iter().map(|matrix| matrix.rows).collect()
    }

    fn weight(&self, backend: &CpuBackend) -> Weight {
        let parts: Vec<_> = self.matrices.iter().map(Matrix::part).collect();
        backend.pack(&parts).expect("whole blocks")
    }

    /// Bits of every output row, parts behind each other, with the rows of `x` split into calls of these sizes.
    fn run(&self, backend: &CpuBackend, x: &[f32], calls: &[usize]) -> Vec<Vec<u32>> {
        let (weight, cols) = (self.weight(backend), self.matrices[0].cols);
        let gain = tensor(backend, 1, &Noise(5).numbers(cols));
        let pre = if self.norm { Pre::RmsNorm { weight: &gain, eps: 1e-5 } } else { Pre::None };
        let mut all = Vec::new();
        let mut first = 0;
        for &rows in calls {
            let input = tensor(backend, rows, &x[first * cols..(first + rows) * cols]);
            let mut outs: Vec<Tensor> =
                self.outputs().iter().map(|&o| residual(backend, first, rows, o)).collect();
            backend.linear(&weight, &input, pre, self.tail, &mut outs.iter_mut().collect::<Vec<_>>());
            let outs: Vec<Vec<u32>> = outs.iter().map(|out| bits(backend, out)).collect();
            for row in 0..rows {
                let parts = outs.iter().map(|out| &out[row * out.len() / rows..(row + 1) * out.len() / rows]);
                all.push(parts.flatten().copied().collect());
            }
            first += rows;
        }
        all
    }
}

/// What is in an output before the operation.
fn residual(backend: &CpuBackend, first: usize, rows: usize, cols: usize) -> Tensor {
    let mut out = backend.tensor(rows, cols);
    for row in 0..rows {
        backend.write(&mut out, row, &Noise((first + row) as u64).numbers(cols));
    }
    out
}

fn pair(format: Format, other: Format, cols: usize) -> [Matrix; 2] {
    [biased(Matrix::new(format, ROWS, cols, 1)), Matrix::new(other, ROWS, cols, 2)]
}

const TAILS: [Tail; 3] = [Tail::Store, Tail::Add, Tail::Glu(Activation::Silu)];

#[test]
fn bits_depend_on_nothing_but_the_row() {
    for format in FORMATS {
        for cols in widths(format) {
            let rows = if cols > 1000 { 7 } else { 19 };
            let x = Noise(7).numbers(rows * cols);
            let matrices = pair(format, format, cols);
            for (norm, tail) in [(false, TAILS[0]), (true, TAILS[1]), (true, TAILS[2])] {
                let case = Case { matrices: &matrices, norm, tail };
                let expected = case.run(&scalar(1), &x, &vec![1; rows]);
                for backend in backends() {
                    let found = case.run(&backend, &x, &[rows]);
                    assert!(expected == found, "{format}, {cols} inputs, {tail:?}, {}", backend.name());
                }
            }
        }
    }
}

fn backends() -> Vec<CpuBackend> {
    Isa::available().flat_map(|isa| [1, 3].map(|threads| CpuBackend::new(threads, isa))).collect()
}

#[test]
fn any_split_of_rows_gives_the_same_bits() {
    let splits: [&[usize]; 6] =
        [&[17, 16], &[1, 2, 3, 4, 5, 6, 7, 5], &[33], &[4, 29], &[20, 13], &[31, 1, 1]];
    for format in FORMATS {
        let cols = 3 * 256;
        let (x, matrices) = (Noise(3).numbers(33 * cols), pair(format, format, cols));
        let case = Case { matrices: &matrices, norm: true, tail: Tail::Store };
        let backend = CpuBackend::new(2, Isa::detect());
        let expected = case.run(&backend, &x, &[1; 33]);
        for split in splits {
            assert!(expected == case.run(&backend, &x, split), "{format} in calls of {split:?} rows");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for format in FORMATS {
        let cols = 256;
        let (x, matrices) = (Noise(3).numbers(41 * cols), pair(format, Format::Q8_0, cols));
        for tail in TAILS {
            let case = Case { matrices: &matrices, norm: false, tail };
            let expected = case.run(&CpuBackend::new(1, Isa::detect()), &x, &[41]);
            for threads in [2, 3, 7] {
                let backend = CpuBackend::new(threads, Isa::detect());
                assert!(expected == case.run(&backend, &x, &[41]), "{format}, {tail:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn many_rows_and_wide_inputs_cross_chunks() {
    for format in [Format::Q4_1, Format::Q8_0, Format::Bf16, Format::Q5K, Format::Q6K] {
        let cols = 4096;
        let (x, matrices) = (Noise(3).numbers(70 * cols), [Matrix::new(format, 20, cols, 4)]);
        let case = Case { matrices: &matrices, norm: false, tail: Tail::Store };
        let backend = CpuBackend::new(2, Isa::detect());
        assert!(case.run(&backend, &x, &[1; 70]) == case.run(&backend, &x, &[70]), "{format}");
    }
}

#[test]
fn norms_and_rows_by_name_give_the_same_bits() {
    let cols = 100;
    let x = Noise(3).numbers(9 * cols);
    let run = |backend: &CpuBackend| {
        let (x, gain) = (tensor(backend, 9, &x), tensor(backend, 1, &Noise(4).numbers(cols)));
        let mut out = backend.tensor(9, cols);
        backend.rms_norm(&x, &gain, 1e-6, &mut out);
        let norm = bits(backend, &out);
        let weight = backend.pack(&[Matrix::new(Format::F16, 23, cols, 1).part()]).expect("whole blocks");
        let mut logits = backend.tensor(9, 23);
        let pre = Pre::RmsNorm { weight: &gain, eps: 1e-6 };
        backend.logits(&weight, &x, &[8, 0, 3], pre, &mut logits);
        let mut all = backend.tensor(9, 23);
        backend.linear(&weight, &x, pre, Tail::Store, &mut [&mut all]);
        for (i, row) in [8, 0, 3].into_iter().enumerate() {
            assert_eq!(backend.read(&logits, i), backend.read(&all, row));
        }
        let mut plain = backend.tensor(9, 23);
        backend.linear(&weight, &out, Pre::None, Tail::Store, &mut [&mut plain]);
        assert_eq!(bits(backend, &plain), bits(backend, &all), "a norm inside equals a norm before");
        norm
    };
    let expected = run(&scalar(1));
    backends().iter().for_each(|backend| assert_eq!(run(backend), expected));
}
