//! Laws of the linear operations: whatever the split of rows, the threads and the instruction set, the same
//! bits; and those bits are close to f64.

mod accuracy;
mod choice;
mod experts;
mod laws;
mod matrix;
mod table;

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Backend, Tensor};

/// A tensor of these rows.
fn tensor(backend: &CpuBackend, rows: usize, values: &[f32]) -> Tensor {
    let mut tensor = backend.tensor(rows, values.len() / rows.max(1));
    backend.write(&mut tensor, 0, values);
    tensor
}

/// All rows of a tensor, as bits.
fn bits(backend: &CpuBackend, tensor: &Tensor) -> Vec<u32> {
    (0..tensor.rows()).flat_map(|row| backend.read(tensor, row)).map(f32::to_bits).collect()
}

fn scalar(threads: usize) -> CpuBackend {
    CpuBackend::new(threads, Isa::Scalar)
}
