use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::TierStats;

/// What a prefix cache did so far, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PrefixStats {
    /// Requests that were looked up.
    pub queries: u64,
    /// Those that went on from something.
    pub hits: u64,
    /// Those that found nothing because nothing was kept yet.
    pub empty: u64,
    /// Those of which nothing kept has even the first id.
    pub unknown: u64,
    /// Those that begin like something kept, which does not reach back to where they part.
    pub diverged: u64,
    /// Ids that were not prefilled again.
    pub tokens_saved: u64,
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

macro_rules! counts {
    ($($name:ident: $kind:ident),*) => {
        /// The counts behind [`PrefixStats`].
        #[derive(Default)]
        pub(crate) struct Counts {
            $(pub $name: $kind,)*
            pub tier: Mutex<Option<TierStats>>,
        }

        impl Counts {
            pub fn stats(&self) -> PrefixStats {
                let tier = *self.tier.lock().unwrap_or_else(PoisonError::into_inner);
                PrefixStats { $($name: self.$name.load(Relaxed),)* tier }
            }
        }
    };
}

counts!(
    queries: AtomicU64,
    hits: AtomicU64,
    empty: AtomicU64,
    unknown: AtomicU64,
    diverged: AtomicU64,
    tokens_saved: AtomicU64,
    joined: AtomicU64,
    stored: AtomicU64,
    evicted: AtomicU64,
    replaced: AtomicU64,
    too_large: AtomicU64,
    entries: AtomicUsize,
    bytes: AtomicUsize
);
