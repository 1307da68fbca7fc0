//! Makes a DFlash draft for a target that is loaded.
//!
//! Prompts → the target's greedy answers ([`data`]) → the target's features → training → export.
//! The method is that of the DFlash paper (arXiv 2602.06036); features come from the weights that are served.

pub mod data;
mod error;
pub mod export;
mod sequence;
mod shape;
mod weights;

pub use error::TrainError;
pub use sequence::Sequence;
pub use shape::DraftShape;
pub use weights::{DraftWeights, Matrix};
