//! Answers that must fit: JSON schemas, tool calls, regular expressions and grammars, thinking budgets.
//!
//! A constraint becomes a guard of the engine, which says at every position which ids may come next. The choice
//! stays the target's, among those ids, so a constrained answer is as lossless as any other: the mask is a function of
//! the ids before it alone.
//!
//! - [`Grammars`] holds what all constrained requests to a model share, and compiles a [`Constraint`].
//! - [`GrammarGuard`] is one answer's place in its grammar.
//! - [`ThinkingBudget`] closes a block of reasoning that has gone on long enough.
//! - [`StopGuard`] ends an answer at a stop string, and [`Guards`] puts several guards together.

#![forbid(unsafe_code)]

mod calls;
mod compile;
mod constraint;
mod error;
mod grammars;
mod guard;
mod guards;
mod lark;
mod schema;
mod stop_guard;
mod thinking_budget;
mod tools;
mod values;
mod vocabulary;
mod xml;

pub use constraint::{Constraint, Reasoning, ToolChoice};
pub use error::GrammarError;
pub use grammars::Grammars;
pub use guard::GrammarGuard;
pub use guards::Guards;
pub use stop_guard::StopGuard;
pub use thinking_budget::ThinkingBudget;
