//! Operations with gradients of their own on the CPU, each beside its composition of the framework's operations.

mod attention;
mod bf16;
#[cfg(test)]
pub mod check;
mod exp;
mod linear;
mod multiply;
mod product;
mod rms_norm;
mod rotate;
mod storage;
mod sums;
mod swiglu;

pub use attention::{Attention, Seen, SeenBlock};
pub use exp::exp;
pub use linear::linear;
pub use multiply::{Precision, multiply};
pub use rms_norm::rms_norm;
pub use rotate::{Rotation, rotate};
pub use storage::{floats, values};
pub use sums::{dot, largest, sum};
pub use swiglu::swiglu;
