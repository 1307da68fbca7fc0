use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Activation, Backend, Experts, Format};

use crate::matrix::{Matrix, Noise, formats};
use crate::{bits, scalar, tensor};

const HIDDEN: usize = 256;
const FFN: usize = 128;

/// Experts of mixed formats, some with biases, that any backend can pack.
struct Mixture {
    gate_up: Vec<[Matrix; 2]>,
    down: Vec<Matrix>,
    top_k: usize,
    activation: Activation,
}

impl Mixture {
    /// Expert `e` has the formats from `first + e` on.
    fn new(count: usize, top_k: usize, activation: Activation, first: usize) -> Self {
        let formats = formats();
        let format = |index: usize| -> Format { formats[(first + index) % formats.len()] };
        let matrix = |expert: usize, part: usize, rows: usize, cols: usize| {
            let matrix = Matrix::new(format(expert + 5 * part), rows, cols, (3 * expert + part) as u64);
            if expert % 3 == 0 { matrix.with_bias() } else { matrix }
        };
        Self {
            gate_up: (0..count).map(|e| [matrix(e, 0, FFN, HIDDEN), matrix(e, 1, FFN, HIDDEN)]).collect(),
            down: (0..count).map(|e| matrix(e, 2, HIDDEN, FFN)).collect(),
            top_k,
            activation,
        }
    }

    fn count(&self) -> usize {
        self.down.len()
    }

    fn experts(&self, backend: &CpuBackend) -> Experts {
        let gate_up = self.gate_up.iter().map(|[gate, up]| backend.pack(&[gate.part(), up.part()]));
        let down = self.down.iter().map(|down| backend.pack(&[down.part()]));
        Experts {
            gate_up: gate_up.collect::<Result<_, _>>().expect("whole blocks"),
            down: down.collect::<Result<_, _>>().expect("whole blocks"),
            activation: self.activation,
            top_k: self.top_k,
            renormalise: self.top_k > 1,
            scale: Some(Noise(77).numbers(self.count())),
        }
    }

    /// Bits of all output rows, with the rows of `x` in calls of at most `rows`.
    fn run(&self, backend: &CpuBackend, scores: &[f32], x: &[f32], rows: usize) -> Vec<u32> {
        let (experts, mut out) = (self.experts(backend), backend.tensor(rows, HIDDEN));
        let calls = scores.chunks(rows * self.count()).zip(x.chunks(rows * HIDDEN));
        let call = |(scores, x): (&[f32], &[f32])| {
            let rows = x.len() / HIDDEN;
            let (scores, x) = (tensor(backend, rows, scores), tensor(backend, rows, x));
            backend.experts(&experts, &scores, &x, &mut out);
            bits(backend, &out)
        };
        calls.flat_map(call).collect()
    }
}

#[test]
fn rows_threads_and_instruction_set_change_no_bits() {
    for (count, top_k, activation, first) in [
        (4, 2, Activation::Silu, 0),
        (13, 1, Activation::GeluTanh, 4),
        (12, 12, Activation::Silu, 0),
        (40, 8, Activation::GeluTanh, 2),
    ] {
        let mixture = Mixture::new(count, top_k, activation, first);
        let rows = 23;
        let (scores, x) = (Noise(1).numbers(rows * count), Noise(2).numbers(rows * HIDDEN));
        // Rows of which all, or half of them, take the same experts.
        let crowd = scores[..count].repeat(rows);
        let half = [&crowd[..12 * count], &scores[12 * count..]].concat();
        for scores in [&scores, &crowd, &half] {
            let expected = mixture.run(&scalar(1), scores, &x, 1);
            for (threads, isa) in [(1, Isa::Scalar), (3, Isa::Scalar)]
                .into_iter()
                .chain([1, 2, 3, 7].map(|threads| (threads, Isa::detect())))
            {
                let backend = CpuBackend::new(threads, isa);
                for call in [1, 4, 9, rows] {
                    let found = mixture.run(&backend, scores, &x, call);
                    assert!(expected == found, "{top_k} of {count}, {call} rows, {}", backend.name());
                }
            }
        }
    }
}

#[test]
fn a_call_of_many_rows_crosses_chunks() {
    let mixture = Mixture::new(3, 2, Activation::Silu, 3);
    let rows = 500;
    let (scores, x) = (Noise(5).numbers(rows * 3), Noise(6).numbers(rows * HIDDEN));
    let backend = CpuBackend::new(2, Isa::detect());
    let expected = mixture.run(&backend, &scores, &x, 1);
    assert!(expected == mixture.run(&backend, &scores, &x, rows));
}

#[test]
#[should_panic(expected = "3 of 2 experts")]
fn more_experts_than_there_are_panic() {
    let mixture = Mixture::new(2, 3, Activation::Silu, 0);
    mixture.run(&scalar(1), &[0.0; 2], &[0.0; HIDDEN], 1);
}
