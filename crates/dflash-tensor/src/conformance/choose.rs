//! The choice and the logits.

use super::data::{Random, all, assert_bits, assert_close, filled};
use super::decode::{FORMATS, Matrix, whole};
use super::linear::{inputs, product};
use crate::{Among, Backend, BackendError, Choice, Pre, Tail, Weight, argmax};

/// [`Backend::logits`] of some rows: right, and with the bits of [`Backend::linear`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn logits(backend: &dyn Backend) {
    let mut random = Random(7);
    for format in FORMATS {
        let (outputs, cols) = (71, 256);
        let matrix = Matrix::random(format, outputs, cols, &mut random);
        let weight = backend.pack(&[matrix.part()]).expect("a format of the suite");
        let (data, gain) = (random.floats(9 * cols), random.floats(cols));
        let (x, gain_tensor) = (filled(backend, cols, &data), filled(backend, cols, &gain));
        for norm in [false, true] {
            let pre = if norm { Pre::RmsNorm { weight: &gain_tensor, eps: 1e-5 } } else { Pre::None };
            let mut whole = backend.tensor(9, outputs);
            backend.linear(&weight, &x, pre, Tail::Store, &mut [&mut whole]);
            for rows in [vec![0], vec![8, 3, 3, 0], (0..9).collect()] {
                let found = some_logits(backend, &weight, &x, &rows, pre);
                let whole: Vec<f32> = rows.iter().flat_map(|&row| backend.read(&whole, row)).collect();
                assert_bits(&found, &whole, &format!("logits of {format} and its product"));
                let inputs = inputs(&data, cols, norm.then_some((gain.as_slice(), 1e-5)));
                let expected: Vec<_> = rows.iter().flat_map(|&row| product(&matrix, &inputs[row])).collect();
                assert_close(&found, &expected, &format!("logits of {format}"));
            }
        }
    }
}

fn some_logits(
    backend: &dyn Backend,
    weight: &Weight,
    x: &crate::Tensor,
    rows: &[usize],
    pre: Pre<'_>,
) -> Vec<f32> {
    let mut out = backend.tensor(16, weight.rows());
    backend.logits(weight, x, rows, pre, &mut out);
    assert_eq!(out.rows(), rows.len(), "a row of logits for every row asked for");
    all(backend, &out)
}

/// [`Backend::choose`]: the argmax of the stored row, its bits, the logarithm of the sum.
///
/// # Panics
/// When the backend breaks its contract.
pub fn choose(backend: &dyn Backend) {
    let mut random = Random(8);
    for format in FORMATS {
        for (outputs, vocab) in [(1, 1), (64, 64), (131, 99), (1000, 999)] {
            let cols = whole(format, 128);
            let matrix = Matrix::random(format, outputs, cols, &mut random);
            let weight = backend.pack(&[matrix.part()]).expect("a format of the suite");
            let x = filled(backend, cols, &random.floats(8 * cols));
            let gain = filled(backend, cols, &random.floats(cols));
            let pre = Pre::RmsNorm { weight: &gain, eps: 1e-6 };
            for rows in [vec![5], vec![7, 0, 2], (0..8).collect()] {
                let logits = some_logits(backend, &weight, &x, &rows, pre);
                let choices = choices(backend, &weight, &x, &rows, pre, vocab);
                for (choice, logits) in choices.iter().zip(logits.chunks(outputs)) {
                    assert_choice(choice, &logits[..vocab]);
                }
            }
        }
    }
    ties(backend);
    padding(backend);
    not_a_number(backend);
}

fn choices(
    backend: &dyn Backend,
    weight: &Weight,
    x: &crate::Tensor,
    rows: &[usize],
    pre: Pre<'_>,
    vocab: usize,
) -> Vec<Choice> {
    let marker = Choice { id: 7, logit: 7.0, logsumexp: 7.0 };
    let mut out = vec![marker];
    backend.choose(weight, x, rows, pre, Among::first(vocab), &mut out).expect("finite logits");
    assert_eq!(out.remove(0), marker, "choices are appended");
    assert_eq!(out.len(), rows.len(), "a choice for every row");
    out
}

fn assert_choice(choice: &Choice, logits: &[f32]) {
    let best = argmax(logits).expect("finite logits");
    assert_eq!((choice.id as usize, choice.logit.to_bits()), (best, logits[best].to_bits()), "the argmax");
    let top = f64::from(choice.logit);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - top).exp()).sum();
    let off = f64::from(choice.logsumexp) - (top + sum.ln());
    assert!(off.abs() <= 2e-6 * (1.0 + top.abs() + sum.ln()), "logsumexp is {off:e} off");
}

/// A weight whose logits for the input 1 are `logits`.
fn fixed(backend: &dyn Backend, logits: &[f32]) -> Weight {
    let matrix = Matrix::of(logits.len(), 1, logits);
    backend.pack(&[matrix.part()]).expect("single floats")
}

fn ties(backend: &dyn Backend) {
    let x = filled(backend, 1, &[1.0, 2.0]);
    for at in [[0, 1], [3, 900], [511, 512], [63, 64], [998, 999]] {
        let mut logits = vec![-1.0; 1000];
        at.iter().for_each(|&id| logits[id] = 4.0);
        let choices = choices(backend, &fixed(backend, &logits), &x, &[0, 1], Pre::None, 1000);
        assert!(choices.iter().all(|choice| choice.id as usize == at[0]), "the lowest id wins a tie");
        assert_choice(&choices[0], &logits);
    }
    let zeros = choices(backend, &fixed(backend, &[0.0; 77]), &x, &[0], Pre::None, 77);
    assert_eq!((zeros[0].id, zeros[0].logit), (0, 0.0), "all tied");
}

fn padding(backend: &dyn Backend) {
    let x = filled(backend, 1, &[1.0]);
    for vocab in [1, 63, 64, 65, 500] {
        let mut logits = vec![-2.0; 520];
        logits[vocab..].fill(100.0);
        logits[vocab] = f32::NAN;
        let choice = choices(backend, &fixed(backend, &logits), &x, &[0], Pre::None, vocab)[0];
        assert_choice(&choice, &logits[..vocab]);
    }
}

fn not_a_number(backend: &dyn Backend) {
    let x = filled(backend, 1, &[1.0, 1.0, 1.0]);
    for id in [0, 5, 64, 700] {
        let mut logits = vec![1.0; 701];
        logits[id] = f32::NAN;
        logits[700] = f32::NAN;
        let mut out = Vec::new();
        let error =
            backend.choose(&fixed(backend, &logits), &x, &[0, 1], Pre::None, Among::first(701), &mut out);
        let expected = BackendError::NotANumber { row: 0, id: id as u32 };
        assert_eq!(error, Err(expected), "NaN is an error");
    }
    let broken = filled(backend, 1, &[1.0, f32::NAN]);
    let mut out = Vec::new();
    let error =
        backend.choose(&fixed(backend, &[1.0, 2.0]), &broken, &[0, 1], Pre::None, Among::first(2), &mut out);
    assert_eq!(error, Err(BackendError::NotANumber { row: 1, id: 0 }), "the row that is NaN");
}
