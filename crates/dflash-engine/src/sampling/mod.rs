//! The choice of an id as a pure function.
//!
//! What is chosen at a position depends on the logits there, the parameters, the ids before it and noise that belongs
//! to (seed, answer, position, id). No generator has a state, so nothing depends on how many rows shared a pass or what
//! was drafted: a seed gives one text. In this order: bias, repetition penalty, presence and frequency penalties,
//! temperature, `top_k`, `top_p`, `min_p`; then a race among the ids that are left.

mod counts;
mod distribution;
mod error;
mod field;
mod filter;
mod highest;
mod logprobs;
mod noise;
mod params;
mod philox;
mod race;
mod sampler;
mod scale;

pub use distribution::Distribution;
pub use error::SamplingError;
pub use field::Field;
pub use logprobs::{Alternative, MOST_ALTERNATIVES, TokenLogprobs};
pub use noise::Noise;
pub use params::{Sampling, SamplingParams};
pub use sampler::{Rule, Sampler};
