//! The laws of exactness on whole targets of every family: every row of logits, and of every layer, is a
//! function of its token prefix alone.
//!
//! What to do when a family is added stands in `common/cases.rs`.

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod choice;
mod families;
mod restore;
mod rollback;
mod row;
mod threads;
mod tree;
