use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::{Lookups, TierStats};

/// What a prefix cache did so far, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PrefixStats {
    /// What came of the prompts that were looked up.
    pub lookups: Lookups,
    /// Ids that were not prefilled again.
    pub tokens_saved: u64,
    /// Seconds that requests took to go on from states in memory.
    pub restore_s: f64,
    /// Requests that waited for another's prefill of the same ids.
    pub joined: u64,
    /// States that were kept.
    pub stored: u64,
    /// States that made room for others.
    pub evicted: u64,
    /// States that made way for one that serves for all they serve for.
    pub replaced: u64,
    /// States that are larger than all that may be kept.
    pub too_large: u64,
    /// States kept now.
    pub entries: usize,
    /// Bytes that they hold, shared ones once.
    pub bytes: usize,
    /// Of the slower tier, where there is one.
    pub tier: Option<TierStats>,
}

/// The figures of a cache, which others read.
#[derive(Default)]
pub(crate) struct Counts(Mutex<PrefixStats>);

impl Counts {
    /// Changes them.
    pub fn change(&self, change: impl FnOnce(&mut PrefixStats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// As they are now.
    pub fn stats(&self) -> PrefixStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
