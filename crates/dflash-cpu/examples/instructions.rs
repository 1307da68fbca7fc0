//! Repeats a kernel for a counter of instructions: `instructions NAME CALLS` runs the case NAME on one
//! thread with the AVX2 kernels, which valgrind knows, and prints the work of a call.
//! `scripts/bench/instructions` makes figures of it.

#[path = "../benches/common/mod.rs"]
mod common;

use dflash_cpu::{CpuBackend, Isa};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, calls] = &arguments[..] else { panic!("usage: instructions NAME CALLS") };
    let calls: usize = calls.parse().expect("a number of calls");
    let backend = CpuBackend::new(1, Isa::Avx2);
    common::cases::visit(
        &backend,
        0,
        |case| case == name,
        |mut case| {
            println!("{}", case.work);
            (0..calls).for_each(|_| (case.run)());
        },
    );
}
