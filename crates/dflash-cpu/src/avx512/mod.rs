//! Products and attention for x86-64 with AVX-512 (F, BW, VNNI). Everything else runs the kernels of
//! [`crate::avx2`], and all of it gives the same bits.

pub(crate) mod attention;
mod block;
pub(crate) mod ceiling;
mod float;
mod math;
mod multiply;
mod scale;
mod super_block;
mod unit;

pub(crate) use multiply::multiply;
