//! What every backend is held to: each operation against an oracle in f64 that is written from the docs of
//! [`Backend`] alone, and the laws of row invariance. A backend's tests call [`run_all`].
//!
//! A violation panics with what was computed and what was expected.

mod attention;
mod blocks;
mod choose;
mod data;
mod decode;
mod elementwise;
mod experts;
mod laws;
mod linear;
mod recurrent;
mod recurrent_laws;
mod rows;

pub use attention::attention;
pub use choose::{choose, logits};
pub use decode::{FORMATS, Matrix};
pub use elementwise::{columns, elementwise, rms_norm_pieces};
pub use experts::{experts, experts_laws};
pub use laws::{attention_laws, linear_laws};
pub use linear::{linear, pack_errors, pack_orders};
pub use recurrent::recurrent;
pub use recurrent_laws::recurrent_laws;
pub use rows::{copy, embed, gather, rms_norm, tensors};

use crate::Backend;

/// Runs the whole suite.
///
/// # Panics
/// When the backend breaks its contract.
pub fn run_all(backend: &dyn Backend) {
    tensors(backend);
    copy(backend);
    rms_norm(backend);
    rms_norm_pieces(backend);
    elementwise(backend);
    columns(backend);
    pack_errors(backend);
    pack_orders(backend);
    linear(backend);
    logits(backend);
    choose(backend);
    gather(backend);
    embed(backend);
    attention(backend);
    recurrent(backend);
    experts(backend);
    linear_laws(backend);
    experts_laws(backend);
    attention_laws(backend);
    recurrent_laws(backend);
    backend.sync().expect("no device error at the end of the suite");
}
