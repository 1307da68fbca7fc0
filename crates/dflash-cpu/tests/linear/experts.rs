use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Activation, Backend, Experts};

use crate::matrix::{FORMATS, Matrix, Noise, biased};
use crate::{bits, scalar, tensor};

const HIDDEN: usize = 256;
const FFN: usize = 256;

/// Experts of mixed formats, a third of them with biases: expert `e` has the formats from `first + e` on.
fn mixture(count: usize, top_k: usize, activation: Activation, first: usize) -> Experts {
    let (backend, formats) = (scalar(1), FORMATS);
    let pack = |expert: usize, parts: &[usize], rows: usize, cols: usize| {
        let matrices = parts.iter().map(|part| {
            let format = formats[(first + expert + 5 * part) % formats.len()];
            let matrix = Matrix::new(format, rows, cols, (3 * expert + part) as u64);
            if expert.is_multiple_of(3) { biased(matrix) } else { matrix }
        });
        let matrices: Vec<Matrix> = matrices.collect();
        let parts: Vec<_> = matrices.iter().map(Matrix::part).collect();
        backend.pack(&parts).expect("whole blocks")
    };
    Experts {
        gate_up: (0..count).map(|expert| pack(expert, &[0, 1], FFN, HIDDEN)).collect(),
        down: (0..count).map(|expert| pack(expert, &[2], HIDDEN, FFN)).collect(),
        activation,
        top_k,
        renormalise: top_k > 1,
        scale: Some(Noise(77).numbers(count)),
    }
}

/// Bits of all output rows, with the rows of `x` in calls of at most `rows`.
fn run(backend: &CpuBackend, experts: &Experts, scores: &[f32], x: &[f32], rows: usize) -> Vec<u32> {
    let (count, mut out) = (experts.down.len(), backend.tensor(rows, HIDDEN));
    let calls = scores.chunks(rows * count).zip(x.chunks(rows * HIDDEN));
    let call = |(scores, x): (&[f32], &[f32])| {
        let rows = x.len() / HIDDEN;
        let (scores, x) = (tensor(backend, rows, scores), tensor(backend, rows, x));
        backend.experts(experts, &scores, &x, &mut out);
        bits(backend, &out)
    };
    calls.flat_map(call).collect()
}

#[test]
fn rows_threads_and_instruction_set_change_no_bits() {
    for (count, top_k, activation, first) in [
        (4, 2, Activation::Silu, 0),
        (13, 1, Activation::GeluTanh, 4),
        (12, 12, Activation::Silu, 0),
        (40, 8, Activation::GeluTanh, 2),
    ] {
        let experts = mixture(count, top_k, activation, first);
        let rows = 23;
        let (scores, x) = (Noise(1).numbers(rows * count), Noise(2).numbers(rows * HIDDEN));
        // Rows of which all, or half of them, take the same experts.
        let crowd = scores[..count].repeat(rows);
        let half = [&crowd[..12 * count], &scores[12 * count..]].concat();
        for scores in [&scores, &crowd, &half] {
            let expected = run(&scalar(1), &experts, scores, &x, 1);
            for (threads, isa, calls) in [
                (3, Isa::Scalar, &[23][..]),
                (1, Isa::detect(), &[1, 4, 9, 23]),
                (2, Isa::detect(), &[23]),
                (2, if Isa::Avx2.is_available() { Isa::Avx2 } else { Isa::Scalar }, &[9, 23]),
                (3, Isa::detect(), &[9, 23]),
                (7, Isa::detect(), &[23]),
            ] {
                let backend = CpuBackend::new(threads, isa);
                for &call in calls {
                    let found = run(&backend, &experts, scores, &x, call);
                    assert!(expected == found, "{top_k} of {count}, {call} rows, {}", backend.name());
                }
            }
        }
    }
}

#[test]
fn a_call_of_many_rows_crosses_chunks() {
    let experts = mixture(3, 2, Activation::Silu, 3);
    let rows = 500;
    let (scores, x) = (Noise(5).numbers(rows * 3), Noise(6).numbers(rows * HIDDEN));
    let backend = CpuBackend::new(2, Isa::detect());
    let expected = run(&backend, &experts, &scores, &x, 1);
    assert!(expected == run(&backend, &experts, &scores, &x, rows));
}

#[test]
#[should_panic(expected = "3 of 2 experts")]
fn more_experts_than_there_are_panic() {
    let experts = mixture(2, 3, Activation::Silu, 0);
    run(&scalar(1), &experts, &[0.0; 2], &[0.0; HIDDEN], 1);
}
