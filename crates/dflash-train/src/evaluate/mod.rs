//! What a draft is worth: tokens per cycle by real decoding, and the speed that these give here.

mod decoding;
mod score;
mod speed;

pub use decoding::{EvaluateOptions, evaluate, step_costs};
pub use score::{Evaluation, Score};
pub use speed::{Speed, Speeds};
