//! Makes a DFlash draft for a target that is loaded.
//!
//! Prompts → the target's greedy answers ([`data`]) → the target's features → training → export.
//! The method is that of the DFlash paper (arXiv 2602.06036); features come from the weights that are served.

pub mod batch;
pub mod data;
mod error;
pub mod evaluate;
pub mod export;
pub mod features;
pub mod graph;
mod hex;
mod initial;
pub mod live;
mod lock;
mod memory;
mod mix;
mod normal;
pub mod run;
mod sequence;
mod shape;
mod target_tables;
mod weights;

pub use error::TrainError;
pub use features::{FeatureCache, Features};
pub use initial::{Initial, init_from_layers};
pub use sequence::Sequence;
pub use shape::DraftShape;
pub use target_tables::TargetTables;
pub use weights::{DraftWeights, Matrix};
