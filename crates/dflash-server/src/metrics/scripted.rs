//! What an engine would tell, for tests.

use std::collections::BTreeMap;

use dflash_engine::{Cycle, Event, FinishReason, Found, Lookup, PositionCount, Stats};

use super::Observer;

/// An answer of 9 ids to 5 prompt ids in three cycles.
pub fn answer(observer: &mut Observer) {
    begin(observer);
    let cycles = [(Some("copy"), 8, 3, 4), (None, 1, 0, 1), (Some("draft"), 4, 2, 3)];
    for (proposer, width, accepted, committed) in cycles {
        observer.see(&Event::Tokens(vec![7; committed]));
        observer.see(&Event::Cycle(Cycle { proposer, width, depth: width - 1, accepted, committed }));
    }
    observer.see(&Event::Finished { reason: FinishReason::Stop, stats: stats() });
}

/// The first of its ids.
pub fn begin(observer: &mut Observer) {
    observer.see(&Event::Admitted { queued_s: 0.25 });
    observer.see(&Event::PrefillProgress { done: 3, total: 5 });
    observer.see(&Event::PrefillProgress { done: 5, total: 5 });
    observer.see(&Event::Tokens(vec![7]));
}

/// What it took.
pub fn stats() -> Stats {
    let count = |verified, accepted| PositionCount { verified, accepted };
    let mut accepted_by_position = vec![count(2, 2), count(2, 2), count(2, 1)];
    accepted_by_position.resize(7, count(1, 0));
    Stats {
        prompt_tokens: 5,
        cached_tokens: 3,
        prefix: Some(Lookup { found: Found::Beginning, from_tier: true }),
        completion_tokens: 9,
        prefill_s: 0.5,
        decode_s: 2.0,
        cycles: 3,
        drafted: 10,
        accepted: 5,
        cycles_by_width: BTreeMap::from([(1, 1), (4, 1), (8, 1)]),
        accepted_by_position,
        ..Stats::default()
    }
}
