use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::prefix::Counts;

/// What an engine does at a moment, told without asking its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Requests in decoding.
    pub active: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Requests that were cancelled so far, in the queue or in decoding.
    pub cancelled: u64,
    /// Panics so far; each has cost the requests that it touched.
    pub faults: u64,
    /// Steps so far.
    pub steps: u64,
    /// Since when the step in work has been running; `None` between steps. One that takes very long hangs.
    pub step: Option<Duration>,
    /// Whether the worker runs.
    pub alive: bool,
}

/// The counts behind [`Load`].
pub(crate) struct Gauges {
    /// Requests in the queue and in decoding.
    pub requests: AtomicUsize,
    pub active: AtomicUsize,
    pub cancelled: AtomicU64,
    pub faults: AtomicU64,
    pub alive: AtomicBool,
    pub prefix: Arc<Counts>,
    steps: AtomicU64,
    epoch: Instant,
    /// Microseconds from the epoch to the beginning of the step in work, and one; 0 between steps.
    began: AtomicU64,
}

impl Gauges {
    pub fn new() -> Self {
        Self {
            requests: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            cancelled: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            alive: AtomicBool::new(true),
            prefix: Arc::default(),
            steps: AtomicU64::new(0),
            epoch: Instant::now(),
            began: AtomicU64::new(0),
        }
    }

    /// Takes a place among `most` requests; false where there is none.
    pub fn enter(&self, most: usize) -> bool {
        let more = |requests| (requests < most).then_some(requests + 1);
        self.requests.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    pub fn begin_step(&self) {
        self.began.store(self.epoch.elapsed().as_micros() as u64 + 1, Relaxed);
    }

    pub fn end_step(&self) {
        self.began.store(0, Relaxed);
        self.steps.fetch_add(1, Relaxed);
    }

    pub fn load(&self) -> Load {
        let began = self.began.load(Relaxed).checked_sub(1).map(Duration::from_micros);
        let active = self.active.load(SeqCst);
        Load {
            active,
            waiting: self.requests.load(SeqCst).saturating_sub(active),
            cancelled: self.cancelled.load(Relaxed),
            faults: self.faults.load(Relaxed),
            steps: self.steps.load(Relaxed),
            step: began.map(|began| self.epoch.elapsed().saturating_sub(began)),
            alive: self.alive.load(SeqCst),
        }
    }
}
