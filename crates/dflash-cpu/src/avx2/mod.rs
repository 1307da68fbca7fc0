//! Kernels for x86-64 with AVX2, FMA and F16C.

pub(crate) mod math;

pub(crate) mod attention;
mod byte;
pub(crate) mod ceiling;
mod flat;
mod float;
mod lanes;
mod multiply;
mod planes;
mod quant;
pub(crate) mod recurrent;
mod rows;
pub(crate) mod scale;
mod super_block;

pub(crate) use lanes::{add_scaled, glu, softcap, sum_exp};
pub(crate) use multiply::{fetch, multiply};
pub(crate) use rows::{quantize, rms_norm};

use multiply::{hold, store};
