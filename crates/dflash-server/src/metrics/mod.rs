//! What a server counts: `/metrics`, the logs and the diagnostics tell it.

mod counts;
mod ended;
mod exposition;
mod histogram;
mod memory;
mod observer;
mod progress;
mod recent;
mod report;
mod routes;
#[cfg(test)]
pub(crate) mod scripted;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dflash_engine::Decoding;

pub(crate) use ended::{Ended, Outcome};
pub(crate) use memory::Memory;
pub use observer::Observer;
pub(crate) use progress::Progress;
pub use routes::{count_refusals, routes};

use crate::Diagnostics;
use counts::Counts;
use recent::Recent;

/// The counts of a server. Clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    diagnostics: Option<Diagnostics>,
}

/// All that changes; every figure is of the moment at which it is locked.
struct State {
    counts: Counts,
    /// Answers in work or in the queue, the oldest first.
    current: BTreeMap<u64, Progress>,
    recent: Recent,
    next: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Metrics {
    /// Counts that begin at 0; what happens is also written to the diagnostics.
    pub fn new(diagnostics: Option<Diagnostics>) -> Self {
        let (counts, recent) = (Counts::default(), Recent::new());
        let state = State { counts, current: BTreeMap::new(), recent, next: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), diagnostics }))
    }

    /// Follows an answer from now on: which one of its request, and how it is decoded.
    pub fn observe(&self, request: &RequestFacts, answer: usize, decoding: Decoding) -> Observer {
        let mut state = self.state();
        let key = state.next;
        state.next += 1;
        state.counts.prompts.observe(request.prompt_tokens as f64, 1);
        state.current.insert(key, Progress::new(request, answer, decoding));
        Observer::new(self.clone(), key, request.id.clone())
    }

    /// A request was refused.
    pub fn refused(&self, reason: &'static str) {
        *self.state().counts.refused.entry(reason).or_default() += 1;
    }

    /// A panic cost a request.
    pub fn panicked(&self) {
        self.state().counts.panics += 1;
    }

    fn diagnostics(&self) -> Option<&Diagnostics> {
        self.0.diagnostics.as_ref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a request before it is decoded.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// The id that its answer carries.
    pub id: String,
    /// The route, such as `chat.completions`.
    pub api: &'static str,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Ids at most.
    pub max_tokens: usize,
}
