use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Among, Backend, BackendError, Choice, Format, Part, Pre, argmax};

use crate::matrix::{FORMATS, Matrix, Noise, biased};
use crate::{scalar, tensor};

const COLS: usize = 256;

/// Outputs, with a ragged group and a ragged tile.
const OUTPUTS: usize = 700;

fn choices(backend: &CpuBackend, part: Part<'_>, x: &[f32], rows: &[usize], vocab: usize) -> Vec<Choice> {
    let (weight, x) = (backend.pack(&[part]).expect("whole blocks"), tensor(backend, x.len() / COLS, x));
    let mut out = Vec::new();
    backend.choose(&weight, &x, rows, Pre::None, Among::first(vocab), &mut out).expect("numbers");
    out
}

fn key(choices: &[Choice]) -> Vec<(u32, u32, u32)> {
    choices.iter().map(|c| (c.id, c.logit.to_bits(), c.logsumexp.to_bits())).collect()
}

#[test]
fn a_choice_is_that_of_the_stored_logits() {
    let backend = CpuBackend::detect();
    let x = Noise(8).numbers(21 * COLS);
    for format in FORMATS {
        let matrix = biased(Matrix::new(format, OUTPUTS, COLS, 3));
        let weight = backend.pack(&[matrix.part()]).expect("whole blocks");
        let rows: Vec<usize> = (0..21).rev().collect();
        let mut logits = backend.tensor(21, OUTPUTS);
        backend.logits(&weight, &tensor(&backend, 21, &x), &rows, Pre::None, &mut logits);
        for vocab in [1, 15, 256, 257, 690, OUTPUTS] {
            for (index, choice) in choices(&backend, matrix.part(), &x, &rows, vocab).iter().enumerate() {
                let row = &backend.read(&logits, index)[..vocab];
                let best = argmax(row).expect("numbers");
                assert_eq!((choice.id as usize, choice.logit.to_bits()), (best, row[best].to_bits()));
                let sum: f64 = row.iter().map(|&logit| f64::from(logit - choice.logit).exp()).sum();
                let exact = f64::from(choice.logit) + sum.ln();
                assert!((f64::from(choice.logsumexp) - exact).abs() <= 1e-5 * exact.abs().max(1.0));
            }
        }
    }
}

#[test]
fn choices_depend_on_nothing_but_the_row() {
    let x = Noise(8).numbers(37 * COLS);
    for format in FORMATS {
        let matrix = Matrix::new(format, OUTPUTS, COLS, 3);
        let one = |row: usize| choices(&scalar(1), matrix.part(), &x, &[row], 650)[0];
        let expected = key(&(0..37).map(one).collect::<Vec<_>>());
        for (isa, threads) in [(Isa::Scalar, 2), (Isa::detect(), 1), (Isa::detect(), 7)]
            .into_iter()
            .chain(Isa::available().map(|isa| (isa, 2)))
        {
            let rows: Vec<usize> = (0..37).collect();
            let found = choices(&CpuBackend::new(threads, isa), matrix.part(), &x, &rows, 650);
            assert_eq!(key(&found), expected, "{format}, {}, {threads} threads", isa.name());
        }
    }
}

fn with_columns(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|&value| std::iter::once(value).chain([0.0; COLS - 1]))
        .flat_map(f32::to_le_bytes)
        .collect()
}

/// Logits are `values` times the first input, one.
fn logits_are(values: &[f32], vocab: usize) -> Result<Vec<Choice>, BackendError> {
    let backend = CpuBackend::new(2, Isa::detect());
    let bytes = with_columns(values);
    let weight = backend.pack(&[Part::plain(Format::F32, values.len(), COLS, &bytes)])?;
    let x = tensor(&backend, 2, &[1.0; 2 * COLS]);
    let mut out = Vec::new();
    backend.choose(&weight, &x, &[0, 1], Pre::None, Among::first(vocab), &mut out)?;
    Ok(out)
}

#[test]
fn the_lowest_id_wins_and_padding_never() {
    let mut values = vec![-1.0; 600];
    for id in [77, 300, 599] {
        values[id] = 5.0;
    }
    assert_eq!(logits_are(&values, 600).unwrap()[1].id, 77);
    values[10] = 9.0;
    assert_eq!(logits_are(&values, 600).unwrap()[0].id, 10);
    assert_eq!(logits_are(&values[301..], 299).unwrap()[0].id, 298);
    assert_eq!(logits_are(&values[301..], 298).unwrap()[0].id, 0);
    assert_eq!(logits_are(&[-0.0, 0.0], 2).unwrap()[0].id, 0);
}

#[test]
fn nan_is_an_error_with_its_lowest_id() {
    let mut values = vec![1.0; 600];
    (values[599], values[280], values[290]) = (f32::NAN, f32::NAN, f32::NAN);
    assert_eq!(logits_are(&values, 600), Err(BackendError::NotANumber { row: 0, id: 280 }));
    assert_eq!(logits_are(&values, 280).unwrap()[0].id, 0);
}

#[test]
fn damaged_activations_are_an_error_in_every_format() {
    let backend = CpuBackend::detect();
    for format in FORMATS {
        let weight = backend.pack(&[Matrix::new(format, 40, COLS, 3).part()]).expect("whole blocks");
        let mut x = vec![0.5; 2 * COLS];
        x[COLS + 40] = f32::NAN;
        let x = tensor(&backend, 2, &x);
        let result = backend.choose(&weight, &x, &[0, 1], Pre::None, Among::first(40), &mut Vec::new());
        assert_eq!(result, Err(BackendError::NotANumber { row: 1, id: 0 }), "{format}");
    }
}
