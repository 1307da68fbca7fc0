//! From the first request to the last.

use tokio::sync::watch;

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It takes requests.
    Serving,
    /// It ends those in work and takes no new ones.
    Draining,
    /// It ends, whatever is in work.
    Ending,
}

/// The phase of a server, for all who wait for it.
#[derive(Debug)]
pub struct Life(watch::Sender<Phase>);

impl Default for Life {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }
}

impl Life {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// The next phase; there is no way back.
    pub fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = (*now).max(phase);
            later
        });
    }

    /// Waits for a phase.
    pub async fn reached(&self, phase: Phase) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|now| *now >= phase).await;
    }
}
