//! The dflash program as a library: command line, settings, known pairs, and the files of models.
//!
//! The binary is [`run`] and nothing else. Data goes to stdout, everything else to stderr.

pub mod cache;
pub mod cli;
pub mod draft_quant;
pub mod embedded;
pub mod env;
pub mod hub;
pub mod interrupt;
pub mod models;
pub mod obtain;
pub mod options;
pub mod pair;
pub mod progress;
pub mod prompt;
pub mod refused;
pub mod registry;
pub mod report;
pub mod request;
mod run;
pub mod setting;

pub use run::run;
