//! The CPU backend of dflash.
//!
//! The instruction set is detected once; every kernel exists as `scalar/` (the bit oracle) and `avx2/`, and
//! both give the same bits. Work is split over outputs only, so the number of threads changes nothing.
//!
//! `unsafe` stands in the instruction set folders, in the thread pool and where threads are handed disjoint
//! pieces of an output, nowhere else.

mod backend;
mod disjoint;
mod host;
mod isa;
mod pool;

pub use backend::CpuBackend;
pub use isa::Isa;
