//! Answers that must fit: JSON schemas, tool calls, regular expressions and grammars, thinking budgets.
//!
//! A constraint becomes a guard of the engine, which says at every position which ids may come next. The choice
//! stays the target's, among those ids, so a constrained answer is as lossless as any other: the mask is a function of
//! the ids before it alone.
//!
//! - [`Grammars`] holds what all constrained requests to a model share, and compiles a [`Constraint`].
//! - [`GrammarGuard`] is one answer's place in its grammar.

#![forbid(unsafe_code)]

mod compile;
mod constraint;
mod error;
mod grammars;
mod guard;
mod schema;
mod seam;
mod vocabulary;

pub use constraint::{Constraint, Reasoning};
pub use error::GrammarError;
pub use grammars::Grammars;
pub use guard::GrammarGuard;
pub use seam::{TokenGuard, TokenMask, Verdict};
