//! The block-diffusion draft, first generation: a small decoder that sees the target's tapped layers as
//! context and proposes a whole block in one pass.

mod body;
mod check;
mod config;
mod gguf;
mod kind;
mod load;
mod markov;
mod model;
mod names;
mod observe;
mod ranked;
mod speculators;
mod state;
mod tables;
mod zlab;

pub use model::{Draft, DraftOptions, DraftSpec};
pub use ranked::Ranked;
pub use state::{DraftState, DraftWorkspace};

pub(crate) use kind::{is_draft_arch, kind_of};
