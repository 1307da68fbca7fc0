use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::Receiver;

use crate::Event;
use crate::load::Gauges;

const WAITING: u8 = 0;
const ACTIVE: u8 = 1;
const CANCELLED: u8 = 2;

/// The place of a request in the engine.
pub(crate) struct Place {
    state: AtomicU8,
    gauges: Arc<Gauges>,
}

impl Place {
    /// In the queue.
    pub fn new(gauges: Arc<Gauges>) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WAITING), gauges })
    }

    /// Leaves the queue for the decoder; false where the request was cancelled.
    pub fn admit(&self) -> bool {
        let admitted = self.state.compare_exchange(WAITING, ACTIVE, SeqCst, SeqCst).is_ok();
        if admitted {
            self.gauges.active.fetch_add(1, SeqCst);
        }
        admitted
    }

    /// Leaves the decoder.
    pub fn leave(&self) {
        self.gauges.active.fetch_sub(1, SeqCst);
        self.gauges.requests.fetch_sub(1, SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.state.load(SeqCst) == CANCELLED
    }

    /// One that still waits gives its place in the queue free at once.
    fn cancel(&self) {
        if self.state.swap(CANCELLED, SeqCst) == WAITING {
            self.gauges.requests.fetch_sub(1, SeqCst);
            self.gauges.cancelled.fetch_add(1, Relaxed);
        }
    }
}

/// Holds a request in the engine. Dropping it cancels the request, in the queue at once and in decoding within a step.
pub struct Ticket(pub(crate) Arc<Place>);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Events of a submitted request, in order. Dropping it cancels the request.
#[derive(Debug)]
pub struct Submission {
    pub(crate) events: Receiver<Event>,
    pub(crate) _ticket: Ticket,
}

impl Deref for Submission {
    type Target = Receiver<Event>;

    fn deref(&self) -> &Receiver<Event> {
        &self.events
    }
}

impl Iterator for Submission {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.events.recv().ok()
    }
}
