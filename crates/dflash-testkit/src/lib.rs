//! Tiny seeded checkpoints in HF layout, so that tests need neither downloads nor Python, and scripted
//! drafts (feature `scripted`).

mod rng;
#[cfg(feature = "scripted")]
mod scripted;
mod tensor_file;
mod tiny_draft;
mod tiny_gemma;
mod tiny_llama;

pub use rng::Rng;
#[cfg(feature = "scripted")]
pub use scripted::{RandomWidths, Script, Scripted};
pub use tensor_file::{Dtype, TensorFile};
pub use tiny_draft::{TinyDraft, TinyLayout};
pub use tiny_gemma::TinyGemma;
pub use tiny_llama::{TinyLlama, TinyMlx, TinyRope};
