//! HTTP in front of the engine: the routes that OpenAI and Anthropic clients speak, over one loaded pair.
//!
//! A request goes one way: wire type → [`generation::Generation`] (valid, neutral, prompt as ids) → the engine →
//! [`generation::Update`]s → wire type. An API family is a folder that knows its own wire types and nothing of the
//! others; what they share is in [`generation`].

#![forbid(unsafe_code)]

pub mod anthropic;
mod app;
mod blocking;
pub mod body;
mod conversation;
mod diagnostics;
mod error;
mod family;
mod gate;
pub mod generation;
mod health;
pub mod life;
pub mod logs;
pub mod metrics;
mod model;
pub mod openai;
pub mod openapi;
pub mod options;
pub mod page;
mod router;
mod serve;
mod settings;
mod signals;
mod sse;
mod transcript;

pub use app::App;
pub use blocking::blocking;
pub use diagnostics::{Diagnostics, DiagnosticsLevel};
pub use error::{ApiError, Kind};
pub use model::{ModelFacts, ServedModel};
pub use router::router;
pub use serve::{Ended, ServeError, run, serve};
pub use settings::ServerSettings;
pub use signals::Signal;
