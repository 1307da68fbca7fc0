//! The seam of dflash: what models and backends agree on.
//!
//! Models describe a forward pass with the operations of [`Backend`]; a backend owns how the numbers are
//! stored and computed. State of a sequence ([`SeqCache`]) lives here because operations append to it.
//!
//! This crate knows no model, no file and no thread.

mod attention;
mod backend;
mod batch;
mod cache;
mod choice;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod experts;
mod format;
mod kv_cache;
mod recurrent;
mod rope;
mod tensor;
mod weight;

pub use attention::{AttentionSpec, HeadNorm, Mask};
pub use backend::{Activation, Among, Backend, Pre, Tail};
pub use batch::{Batch, Shape, Span};
pub use cache::{LayerCache, SeqCache};
pub use choice::{Choice, argmax};
pub use error::BackendError;
pub use experts::Experts;
pub use format::{AffineScale, Format};
pub use kv_cache::{BLOCK_POSITIONS, Keep, KvCache, KvGeometry, KvStore};
pub use recurrent::{
    Accepted, ConvGeometry, ConvInputs, ConvSpec, DeltaGeometry, DeltaInputs, DeltaSpec, KeyHeadMap,
    RecurrentGeometry, RecurrentStore,
};
pub use rope::{Rope, RopeScaling};
pub use tensor::{Buffer, Tensor};
pub use weight::{Part, PartData, PartShape, Weight};
