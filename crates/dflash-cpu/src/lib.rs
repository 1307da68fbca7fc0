//! The CPU backend of dflash.
//!
//! The instruction set is detected once; every kernel exists as `scalar/` (the bit oracle) and `avx2/`, or once
//! over plain lanes and compiled for each, and all give the same bits. Work is split over outputs only, so the number of threads changes nothing.
//!
//! `unsafe` stands in the instruction set folders, in the thread pool, in the memory of weights and what is fetched
//! ahead of it, and where threads are handed disjoint pieces of an output, nowhere else.

mod ahead;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod backend;
mod bandwidth;
mod ceiling;
mod ceilings;
mod choose;
mod cores;
mod disjoint;
mod elementwise;
mod embed;
mod experts;
mod host;
mod inputs;
mod isa;
mod kv;
mod lanes;
mod linear;
mod math;
mod memory;
mod norm;
mod pack;
mod pool;
mod quantize;
mod recurrent;
mod rows;
mod scalar;
mod self_test;
mod tile;
mod work;

pub use backend::CpuBackend;
pub use ceilings::Ceilings;
pub use cores::Cores;
pub use isa::Isa;
pub use work::{Arithmetic, PerArithmetic, Work};
