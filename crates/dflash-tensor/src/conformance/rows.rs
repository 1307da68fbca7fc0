//! Operations that move or scale rows.

use super::data::{Exact, Random, all, assert_bits, assert_close, filled, normalised, wide};
use super::decode::{FORMATS, Matrix, whole};
use crate::{Backend, Format, Weight};

/// [`Backend::tensor`], [`Backend::write`] and [`Backend::read`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn tensors(backend: &dyn Backend) {
    let mut random = Random(1);
    let mut tensor = backend.tensor(5, 7);
    assert_eq!((tensor.rows(), tensor.capacity(), tensor.cols()), (5, 5, 7), "a new tensor");
    assert!(all(backend, &tensor).iter().all(|&x| x == 0.0), "a new tensor is zeroed");
    let data = random.floats(14);
    backend.write(&mut tensor, 2, &data);
    let read = all(backend, &tensor);
    assert_bits(&read[14..28], &data, "rows written");
    assert!(read[..14].iter().chain(&read[28..]).all(|&x| x == 0.0), "other rows stay");
    tensor.set_rows(3);
    tensor.set_rows(5);
    assert_bits(&all(backend, &tensor), &read, "rows stay when fewer are in use for a while");
    assert!(!backend.name().is_empty(), "a backend has a name");
}

/// [`Backend::copy`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn copy(backend: &dyn Backend) {
    let mut random = Random(2);
    let (source, before) = (random.floats(6 * 5), random.floats(8 * 16));
    for (source_row, rows, row, col) in [(0, 6, 0, 0), (2, 3, 5, 11), (5, 1, 0, 3), (3, 0, 2, 2)] {
        let from = filled(backend, 5, &source);
        let mut target = filled(backend, 16, &before);
        backend.copy(&from, source_row, rows, &mut target, row, col);
        let mut expected = before.clone();
        for i in 0..rows {
            let values = &source[(source_row + i) * 5..][..5];
            expected[(row + i) * 16 + col..][..5].copy_from_slice(values);
        }
        assert_bits(&all(backend, &target), &expected, "copied rows");
    }
}

/// [`Backend::rms_norm`], also with one row at a time.
///
/// # Panics
/// When the backend breaks its contract.
pub fn rms_norm(backend: &dyn Backend) {
    let mut random = Random(3);
    for cols in [1, 8, 20, 64, 576, 1000] {
        for (rows, eps) in [(1, 1e-5), (3, 1e-6), (17, 0.1)] {
            let (x, weight) = (random.floats(rows * cols), random.floats(cols));
            let gain = filled(backend, cols, &weight);
            let run = |x: &[f32]| {
                let x = filled(backend, cols, x);
                let mut out = backend.tensor(20, cols);
                backend.rms_norm(&x, &gain, eps, &mut out);
                assert_eq!(out.rows(), x.rows(), "rows of the output");
                all(backend, &out)
            };
            let found = run(&x);
            let expected: Vec<Exact> = x
                .chunks(cols)
                .flat_map(|x| normalised(&wide(x), &weight, eps))
                .map(|value| Exact { value, error: 1e-6 * value.abs() + 1e-30 })
                .collect();
            assert_close(&found, &expected, "RMS norm");
            let alone: Vec<f32> = x.chunks(cols).flat_map(run).collect();
            assert_bits(&alone, &found, "RMS norm, row by row");
        }
    }
}

/// [`Backend::embed`] of every format.
///
/// # Panics
/// When the backend breaks its contract.
pub fn embed(backend: &dyn Backend) {
    let mut random = Random(4);
    for format in FORMATS {
        for (rows, cols) in [(1, 128), (29, 256), (64, 640)] {
            let cols = whole(format, cols);
            let matrix = Matrix::random(format, rows, cols, &mut random);
            let table = backend.pack(&[matrix.part()]).expect("a format of the suite");
            let ids: Vec<u32> = (0..11).map(|_| random.below(rows) as u32).collect();
            for scale in [1.0, 24.5] {
                let mut out = backend.tensor(12, cols);
                backend.embed(&table, &ids, scale, &mut out);
                assert_eq!(out.rows(), ids.len(), "a row for every id");
                let expected: Vec<Exact> = ids
                    .iter()
                    .flat_map(|&id| matrix.row(id as usize).to_vec())
                    .map(|value| value * f64::from(scale))
                    .map(|value| Exact { value, error: 1e-6 * (value.abs() + f64::from(scale)) })
                    .collect();
                assert_close(&all(backend, &out), &expected, &format!("embedding of {format}"));
            }
        }
    }
    embed_of_parts(backend, &mut random);
}

/// Rows of several parts are numbered one part after the other.
fn embed_of_parts(backend: &dyn Backend, random: &mut Random) {
    let matrices = [(Format::Q4_1, 3), (Format::F32, 29), (Format::Q8_0, 5)]
        .map(|(format, rows)| Matrix::random(format, rows, 128, random));
    let pack = |matrices: &[&Matrix]| {
        let parts: Vec<_> = matrices.iter().map(|matrix| matrix.part()).collect();
        backend.pack(&parts).expect("formats of the suite")
    };
    let rows = |table: &Weight, ids: &[u32]| {
        let mut out = backend.tensor(ids.len(), 128);
        backend.embed(table, ids, 1.0, &mut out);
        all(backend, &out)
    };
    let together = pack(&matrices.each_ref());
    let alone: Vec<f32> = [(0, 2), (1, 0), (1, 28), (2, 0), (2, 4)]
        .into_iter()
        .flat_map(|(part, row)| rows(&pack(&[&matrices[part]]), &[row]))
        .collect();
    assert_eq!(rows(&together, &[2, 3, 31, 32, 36]), alone, "rows of several parts");
}

/// [`Backend::gather`]: the rows have the bits that they have in the whole weight.
///
/// # Panics
/// When the backend breaks its contract.
pub fn gather(backend: &dyn Backend) {
    let mut random = Random(5);
    for format in FORMATS {
        let (rows, cols) = (53, 256);
        let matrix = Matrix::random(format, rows, cols, &mut random).decorated(&mut random);
        let whole = backend.pack(&[matrix.part()]).expect("a format of the suite");
        let ids: Vec<u32> = (0..21).map(|_| random.below(rows) as u32).collect();
        let some = backend.gather(&whole, &ids);
        assert_eq!((some.rows(), some.cols(), some.parts().len()), (ids.len(), cols, 1), "gathered shape");
        let x = filled(backend, cols, &random.floats(3 * cols));
        let logits = |weight| {
            let mut out = backend.tensor(3, crate::Weight::rows(weight));
            backend.logits(weight, &x, &[0, 1, 2], crate::Pre::None, &mut out);
            all(backend, &out)
        };
        let picked: Vec<f32> = logits(&whole)
            .chunks(rows)
            .flat_map(|row| ids.iter().map(|&id| row[id as usize]).collect::<Vec<_>>())
            .collect();
        assert_bits(&logits(&some), &picked, &format!("gathered rows of {format}"));
    }
}
