//! Sampling by example and by statistics; `lossless/sampling.rs` has the law.

#[path = "../common/mod.rs"]
mod common;

mod distribution;
mod fields;
mod reference;
