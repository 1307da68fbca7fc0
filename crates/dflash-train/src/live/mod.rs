//! What training tells while it runs: progress, a log, a curve.

mod progress;

pub use progress::Progress;
