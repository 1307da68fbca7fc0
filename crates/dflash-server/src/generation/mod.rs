//! What all API families share: a valid request in neutral terms, and what becomes of it.

mod answer;
mod guards;
mod paced;
mod request;
mod run;
mod summary;
mod usage;

pub use answer::{Answer, ToolCall, collect};
pub use paced::{Beat, Paced, collect_in_time};
pub use request::Generation;
pub use run::{Finish, Running, Step, Update, start};
pub use summary::Summary;
pub use usage::Usage;

pub use dflash_text::{AnswerFormat, Piece};
