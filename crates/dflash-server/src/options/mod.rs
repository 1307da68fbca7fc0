//! What API families have in common about a request: fields that mean the same in all of them, and the way from
//! there to a [`Generation`](crate::generation::Generation).
//!
//! A family reads its wire fields into [`ChatOptions`] (with the readers here, where the names agree) and calls
//! [`ChatOptions::generation`].

mod chat;
mod choice;
mod extension;
mod known;
mod limits;
mod output;
mod sampling;
mod stop;
mod template;
mod tools;

pub use chat::{ChatOptions, check_prompt, sampling_params};
pub use choice::ToolChoice;
pub use extension::Extension;
pub use known::{Known, refuse_known};
pub use limits::{MOST_ANSWERS, answers, max_tokens};
pub use output::OutputFormat;
pub use sampling::sampling;
pub use stop::{MOST_STOPS, stop_strings};
pub use template::{Thinking, template_kwargs};
pub use tools::{Tools, check_name};
