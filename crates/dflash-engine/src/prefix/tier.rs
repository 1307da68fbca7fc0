use std::sync::Arc;
use std::sync::mpsc::Receiver;

use serde::Serialize;

use super::Snapshot;

/// What a tier did so far, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TierStats {
    /// States there, as far as is known.
    pub entries: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// States that were read.
    pub hits: u64,
    /// Seconds that this took.
    pub read_s: f64,
    /// States that could not be read, and were dropped.
    pub damaged: u64,
    /// States that were written.
    pub stored: u64,
    /// States that made room for others.
    pub evicted: u64,
    /// States that were not written: an error, no room, or more than could be written in time.
    pub failed: u64,
}

/// A slower place for states than memory, such as files. Every call returns at once: what takes time happens elsewhere.
pub trait PrefixTier: Send {
    /// For how many of the first `ids` a state serves that is there.
    fn serves(&self, ids: &[u32]) -> usize;

    /// Reads the state that serves `ids` best. What comes is `None` where it cannot be had any more.
    fn fetch(&self, ids: &[u32]) -> Receiver<Option<Arc<Snapshot>>>;

    /// Takes a state that may be wanted later.
    fn offer(&self, snapshot: &Arc<Snapshot>);

    /// What it did so far.
    fn stats(&self) -> TierStats;
}
