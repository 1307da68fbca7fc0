//! The decode cycle of dflash.
//!
//! One request goes one way: [`Request`] → prefill → cycles of propose, verify, commit → [`Event`]s. Ids go
//! in, ids come out; no text enters this crate. Plain decoding is the same loop with a width of one row.
//!
//! Whatever a proposer proposes and whatever width a policy picks, the committed ids are those of plain
//! decoding: a row of the target depends on its prefix alone.

mod block;
mod choices;
mod commit;
mod cost;
mod decoder;
mod draft;
mod error;
mod event;
mod faults;
mod guard;
mod handle;
mod laps;
mod load;
mod mask;
mod prefix;
pub mod proposer;
mod request;
pub mod sampling;
mod scratch;
mod sequence;
mod step;
mod stopwatch;
mod ticket;
mod tree;
mod width;
mod worker;

pub use cost::{Curve, StepCosts};
pub use decoder::{Decoder, DecoderOptions, VerifyMode};
pub use error::EngineError;
pub use event::{Cycle, Event, FinishReason, Phases, PositionCount, Stats};
pub use guard::{TokenGuard, Verdict};
pub use handle::{EngineEnd, EngineHandle, EngineOptions};
pub use load::Load;
pub use mask::TokenMask;
pub use prefix::{Found, Lookup, Lookups, PrefixOptions, PrefixStats, PrefixTier, Snapshot, TierStats};
pub use proposer::{Offer, ProposeRequest, Proposer, ProposerState};
pub use request::{Decoding, Request};
pub use sampling::{Sampling, SamplingParams, TokenLogprobs};
pub use stopwatch::{Effort, Pass, Stopwatch};
pub use ticket::{Submission, Ticket};
pub use tree::{Node, best_first};
pub use width::{Adaptive, Company, Experience, Fixed, Outcome, Plan, PolicyStats, WidthPolicy};
pub use worker::Sink;
