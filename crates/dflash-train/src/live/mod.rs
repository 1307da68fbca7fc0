//! What training tells while it runs: progress, a log, a curve.

mod curve;
mod log;
mod progress;
mod step;

pub use log::Log;
pub use progress::Progress;
pub use step::{EvaluationLog, Held, StepLog};
