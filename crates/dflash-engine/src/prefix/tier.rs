use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::Snapshot;

/// A slower place for states than memory, such as files. Every call returns at once: what takes time happens elsewhere.
pub trait PrefixTier: Send {
    /// For how many of the first `ids` a state serves that is there.
    fn serves(&self, ids: &[u32]) -> usize;

    /// Reads the state that serves `ids` best. What comes is `None` where it cannot be had any more.
    fn fetch(&self, ids: &[u32]) -> Receiver<Option<Arc<Snapshot>>>;

    /// Takes a state that may be wanted later.
    fn offer(&self, snapshot: &Arc<Snapshot>);
}
