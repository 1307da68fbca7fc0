//! Prompts and the target's greedy answers to them, in files that survive an interruption.

mod author;
mod loops;
mod make;
mod manifest;
mod progress;
mod prompts;
mod shard;
mod starters;
mod turn;

pub use make::{DataOptions, SHORTEST, make};
pub use manifest::Manifest;
pub use progress::DataProgress;
pub use prompts::{Prompt, Prompts};
pub use shard::{Shard, shards};
pub use turn::Turn;
