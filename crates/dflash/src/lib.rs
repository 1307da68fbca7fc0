//! The dflash program as a library: command line, settings, known pairs, and the files of models.
//!
//! The binary is [`run`] and nothing else. Data goes to stdout, everything else to stderr.

pub mod benchmark;
pub mod cache;
pub mod check;
pub mod cli;
mod cores;
mod costs;
mod cycles;
pub mod doctor;
pub mod draft_quant;
pub mod embedded;
pub mod env;
pub mod experience;
pub mod generate;
pub mod hub;
pub mod interrupt;
pub mod logprobs;
pub mod models;
pub mod obtain;
pub mod options;
pub mod pair;
pub mod prefix;
pub mod progress;
pub mod prompt;
pub mod refused;
pub mod registry;
mod remembered;
pub mod report;
pub mod request;
mod run;
pub mod runtime;
pub mod sampling;
pub mod serve;
pub mod setting;
pub mod suite;
pub mod text;
pub mod train;

pub use run::run;
