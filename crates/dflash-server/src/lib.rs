//! HTTP in front of the engine: the routes that OpenAI and Anthropic clients speak, over one loaded pair.
//!
//! A request goes one way: wire type → [`generation::Generation`] (valid, neutral, prompt as ids) → the engine →
//! [`generation::Update`]s → wire type. An API family is a folder that knows its own wire types and nothing of the
//! others; what they share is in [`generation`].

#![forbid(unsafe_code)]

pub mod anthropic;
mod app;
pub mod body;
mod conversation;
mod diagnostics;
mod error;
pub mod generation;
pub mod logs;
pub mod metrics;
mod model;
pub mod openai;
pub mod page;
mod router;
mod serve;
mod settings;
mod sse;
mod transcript;

pub use app::App;
pub use diagnostics::{Diagnostics, DiagnosticsLevel};
pub use error::{ApiError, Kind};
pub use model::{ModelFacts, ServedModel};
pub use router::router;
pub use serve::{ServeError, serve};
pub use settings::ServerSettings;
