//! `benchmark` to its end, through the real binary, on tiny models.

#[path = "../common/mod.rs"]
mod common;
mod comparison;
mod curve;
mod lines;
