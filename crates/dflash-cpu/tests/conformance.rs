//! The backend under the suite of the seam, with every instruction set and several numbers of threads.

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::conformance;

#[test]
fn scalar_kernels_on_one_thread() {
    conformance::run_all(&CpuBackend::new(1, Isa::Scalar));
}

#[test]
fn scalar_kernels_on_three_threads() {
    conformance::run_all(&CpuBackend::new(3, Isa::Scalar));
}

#[test]
fn best_kernels_on_one_thread() {
    conformance::run_all(&CpuBackend::new(1, Isa::detect()));
}

#[test]
fn kernels_between_them_on_two_threads() {
    let between = Isa::available().filter(|&isa| isa != Isa::Scalar && isa != Isa::detect());
    between.for_each(|isa| conformance::run_all(&CpuBackend::new(2, isa)));
}

#[test]
fn best_kernels_on_three_threads() {
    conformance::run_all(&CpuBackend::new(3, Isa::detect()));
}
