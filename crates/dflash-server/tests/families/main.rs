//! Routes of the Anthropic API and of responses, and the description of all, over a tiny model.

#[path = "../common/mod.rs"]
mod common;

mod anthropic;
mod openapi;
mod responses;
