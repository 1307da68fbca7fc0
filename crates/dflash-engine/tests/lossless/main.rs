//! The lossless law: with any draft, at any width, the ids are those of plain decoding.
//!
//! What to do when a family is added stands in `common/cases.rs`.

#[path = "../common/mod.rs"]
mod common;

mod coupling;
mod drafts;
mod faults;
mod guards;
mod requests;
mod sampling;
mod scripts;
mod trees;
