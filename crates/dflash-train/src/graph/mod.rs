//! The draft as a graph that can be differentiated, and its training.
//!
//! The graph is that of the runtime's draft: `fc` and `hidden_norm` make the context rows, block rows attend to the
//! context before their anchor and to their own block. On a CPU the parts between matrix products are operations of
//! their own with hand-written gradients (`ops`); elsewhere they are composed of the framework's.

mod adamw;
mod forward;
mod head;
mod ops;
mod parameters;
mod plan;
mod schedule;
#[cfg(test)]
mod tests;
mod trainer;

pub use adamw::AdamW;
pub use candle_core::Device;
pub use ops::Precision;
pub use schedule::Schedule;
pub use trainer::{Measure, StepReport, TrainState, Trainer, TrainerOptions};
