//! What sequences leave behind for those that begin alike, so that nothing is prefilled twice. A row of the target depends on
//! its prefix alone, so that going on from a state that was kept gives the bits of computing it anew (restore law).

mod cache;
mod counts;
mod held;
mod lookup;
mod snapshot;
mod tier;

pub use cache::PrefixOptions;
pub use counts::PrefixStats;
pub use lookup::{Found, Lookup, Lookups};
pub use snapshot::Snapshot;
pub use tier::{PrefixTier, TierStats};

pub(crate) use cache::PrefixCache;
pub(crate) use counts::Counts;
