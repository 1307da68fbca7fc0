//! What one training step looks at: blocks at random anchors of answers, and the context that each of them sees.

mod anchors;
mod blocks;

pub use anchors::Anchors;
pub use blocks::{Batch, BatchOptions, Sample, Span};
