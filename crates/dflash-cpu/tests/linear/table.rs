use dflash_cpu::CpuBackend;
use dflash_tensor::{Backend, BackendError, Format, Part, Pre, Tail};

use crate::matrix::{FORMATS, Matrix, Noise, biased, widths};
use crate::{bits, tensor};

#[test]
fn embedding_rows_are_the_numbers_of_the_file() {
    let backend = CpuBackend::detect();
    for format in FORMATS {
        for cols in widths(format) {
            let matrix = Matrix::new(format, 37, cols, 3);
            let table = backend.pack(&[matrix.part()]).expect("whole blocks");
            let ids = [36, 0, 15, 16, 0];
            let mut out = backend.tensor(8, cols);
            backend.embed(&table, &ids, 2.0, &mut out);
            assert_eq!(out.rows(), ids.len());
            for (row, id) in ids.into_iter().enumerate() {
                let exact = matrix.row(id as usize);
                for (found, exact) in backend.read(&out, row).iter().zip(exact) {
                    assert!(
                        (f64::from(*found) - 2.0 * exact).abs() <= 1e-6 * exact.abs().max(1.0),
                        "{format}"
                    );
                }
            }
        }
    }
}

#[test]
fn gathered_rows_give_the_bits_of_the_whole() {
    let backend = CpuBackend::detect();
    let (cols, ids) = (256, [5, 49, 0, 16, 17, 5, 33]);
    let x = tensor(&backend, 2, &Noise(1).numbers(2 * cols));
    for format in FORMATS {
        let whole = backend.pack(&[biased(Matrix::new(format, 50, cols, 3)).part()]).expect("whole blocks");
        let some = backend.gather(&whole, &ids);
        assert_eq!((some.rows(), some.parts()[0].format), (ids.len(), format));
        let (mut all, mut out) = (backend.tensor(2, 50), backend.tensor(2, ids.len()));
        backend.linear(&whole, &x, Pre::None, Tail::Store, &mut [&mut all]);
        backend.linear(&some, &x, Pre::None, Tail::Store, &mut [&mut out]);
        for row in 0..2 {
            let all = backend.read(&all, row);
            let picked: Vec<f32> = ids.iter().map(|&id| all[id as usize]).collect();
            assert_eq!(backend.read(&out, row), picked, "{format}");
        }
    }
}

#[test]
fn an_order_moves_rows() {
    let (backend, cols) = (CpuBackend::detect(), 256);
    let order: Vec<u32> = (0..50).map(|i| i * 7 % 50).collect();
    for format in FORMATS {
        let matrix = Matrix::new(format, 50, cols, 3);
        let plain = backend.pack(&[matrix.part()]).expect("whole blocks");
        let mut part = matrix.part();
        part.order = Some(&order);
        let ordered = backend.pack(&[part]).expect("whole blocks");
        let ids: Vec<u32> = (0..50).collect();
        let (mut a, mut b) = (backend.tensor(50, cols), backend.tensor(50, cols));
        backend.embed(&plain, &order, 1.0, &mut a);
        backend.embed(&ordered, &ids, 1.0, &mut b);
        assert_eq!(bits(&backend, &a), bits(&backend, &b), "{format}");
    }
}

#[test]
fn wrong_lengths_and_ragged_blocks_are_errors() {
    let backend = CpuBackend::detect();
    let error = |format, cols, bytes: &[u8]| backend.pack(&[Part::plain(format, 2, cols, bytes)]).err();
    assert!(matches!(
        error(Format::Q8_0, 32, &[0; 67]),
        Some(BackendError::WrongLength { expected: 68, .. })
    ));
    assert!(matches!(error(Format::Q4_0, 48, &[0; 54]), Some(BackendError::RaggedBlocks { .. })));
}

#[test]
fn packed_bytes_are_those_of_the_file() {
    let backend = CpuBackend::detect();
    let weight = |rows| backend.pack(&[Matrix::new(Format::Q4_1, rows, 64, 1).part()]).expect("whole blocks");
    assert_eq!(weight(32).bytes(), 32 * 40);
    assert_eq!(weight(33).bytes(), 48 * 40);
}

#[test]
fn packed_weights_stay_quantised() {
    let backend = CpuBackend::detect();
    for format in FORMATS {
        let matrix = Matrix::new(format, 48, 1024, 1);
        let (packed, file) =
            (backend.pack(&[matrix.part()]).expect("whole blocks").bytes(), matrix.file_bytes());
        assert!(packed * 10 <= file * 11, "{format}: {packed} bytes for {file} of the file");
    }
}

#[test]
fn rows_are_copied_to_a_place() {
    let backend = CpuBackend::detect();
    let source = tensor(&backend, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mut target = backend.tensor(4, 5);
    backend.copy(&source, 1, 2, &mut target, 2, 3);
    assert_eq!(backend.read(&target, 1), [0.0; 5]);
    assert_eq!(backend.read(&target, 2), [0.0, 0.0, 0.0, 3.0, 4.0]);
    assert_eq!(backend.read(&target, 3), [0.0, 0.0, 0.0, 5.0, 6.0]);
}
