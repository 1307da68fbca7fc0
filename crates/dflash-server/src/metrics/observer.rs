use dflash_engine::Event;

use super::RequestFacts;

/// Sees every event of one answer; one that is dropped before the last of them was cancelled.
#[derive(Debug)]
pub struct Observer {
    _facts: RequestFacts,
}

impl Observer {
    pub(super) fn new(facts: &RequestFacts) -> Self {
        Self { _facts: facts.clone() }
    }

    /// The next event.
    pub fn see(&mut self, _event: &Event) {}
}
