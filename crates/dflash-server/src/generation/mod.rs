//! What all API families share: a valid request in neutral terms, and what becomes of it.

mod answer;
mod request;
mod run;
mod usage;

pub use answer::{Answer, ToolCall, collect};
pub use request::Generation;
pub use run::{Finish, Running, Step, Update, start};
pub use usage::Usage;

pub use dflash_text::{AnswerFormat, Piece};
