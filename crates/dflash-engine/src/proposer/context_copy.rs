use std::collections::HashMap;
use std::ops::Range;

use dflash_tensor::{BackendError, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};

/// Longest and shortest suffix that is looked up.
const LONGEST: usize = 6;
const SHORTEST: usize = 3;

/// Copies what followed the last occurrence of the sequence's longest repeated suffix (6 down to 3 ids),
/// from its own prompt and answer. Costs next to nothing, and pays in code, quotations and tables.
pub struct ContextCopy {
    block: usize,
}

/// Where every n-gram last ended, per length; `None` at the end of the sequence is replaced when it grows.
#[derive(Default)]
struct Index {
    /// Ids that are indexed, except for n-grams ending at the last of them.
    seen: usize,
    ends: [HashMap<[u32; LONGEST], usize>; LONGEST - SHORTEST + 1],
    /// Position after the match found by the last offer.
    source: usize,
}

impl ContextCopy {
    /// Copies at most `block - 1` ids at a time.
    pub fn new(block: usize) -> Self {
        Self { block }
    }
}

fn key(ids: &[u32], end: usize, n: usize) -> Option<[u32; LONGEST]> {
    let start = end.checked_sub(n)?;
    let mut key = [u32::MAX; LONGEST];
    key[..n].copy_from_slice(&ids[start..end]);
    Some(key)
}

impl Index {
    /// Indexes the n-grams that end before the last id: a match must have something to copy after it.
    fn extend(&mut self, ids: &[u32]) {
        for end in self.seen.max(1)..ids.len() {
            for n in SHORTEST..=LONGEST {
                if let Some(key) = key(ids, end, n) {
                    self.ends[n - SHORTEST].insert(key, end);
                }
            }
        }
        self.seen = ids.len();
    }

    /// Length of the longest repeated suffix and the position after its most recent earlier occurrence.
    fn find(&self, ids: &[u32]) -> Option<(usize, usize)> {
        (SHORTEST..=LONGEST).rev().find_map(|n| {
            let end = self.ends[n - SHORTEST].get(&key(ids, ids.len(), n)?)?;
            Some((n, *end))
        })
    }
}

impl Proposer for ContextCopy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(Index::default())
    }

    fn classes(&self) -> usize {
        LONGEST - SHORTEST + 1
    }

    /// Longer matches are believed sooner.
    fn prior(&self, class: usize) -> f32 {
        0.4 + 0.1 * class as f32
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, state: &mut ProposerState, ids: &[u32]) -> Offer {
        let index = state.downcast_mut::<Index>().expect("state of this proposer");
        index.extend(ids);
        match index.find(ids) {
            Some((n, end)) => {
                index.source = end;
                Offer { ids: (ids.len() - end).min(self.block - 1), class: n - SHORTEST }
            }
            None => Offer { ids: 0, class: 0 },
        }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            let source = request.state.downcast_ref::<Index>().expect("state of this proposer").source;
            let copy = request.ids[source..].iter().take(request.width - 1);
            request.drafted.extend(copy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(ids: &[u32], block: usize) -> (Offer, Vec<u32>) {
        let copy = ContextCopy::new(block);
        let mut state = copy.new_state();
        let offer = copy.offer(&mut state, ids);
        let mut drafted = Vec::new();
        if offer.ids > 0 {
            let width = offer.ids + 1;
            let mut request = [ProposeRequest {
                state: &mut state,
                ids,
                rule: None,
                width,
                ranks: 1,
                drafted: &mut drafted,
                confidence: &mut Vec::new(),
            }];
            copy.propose(&mut request).unwrap();
        }
        (offer, drafted)
    }

    #[test]
    fn longest_match_then_most_recent() {
        // The suffix 1 2 3 occurs twice; 9 1 2 3 only once, and longer wins over more recent.
        let ids = [9, 1, 2, 3, 50, 1, 2, 3, 60, 9, 1, 2, 3];
        assert_eq!(copied(&ids, 4), (Offer { ids: 3, class: 1 }, vec![50, 1, 2]));
        let ids = [7, 1, 2, 3, 50, 8, 1, 2, 3, 60, 9, 1, 2, 3];
        assert_eq!(copied(&ids, 3), (Offer { ids: 2, class: 0 }, vec![60, 9]));
    }

    #[test]
    fn partial_copies_at_the_end_and_none_without_a_match() {
        let ids = [1, 2, 3, 4, 1, 2, 3];
        assert_eq!(copied(&ids, 16), (Offer { ids: 4, class: 0 }, vec![4, 1, 2, 3]));
        assert_eq!(copied(&[1, 2, 3, 4, 5, 6], 16).0.ids, 0);
        assert_eq!(copied(&[1], 16).0.ids, 0);
        assert_eq!(copied(&[5, 5, 5, 5], 16), (Offer { ids: 1, class: 0 }, vec![5]));
    }

    #[test]
    fn growing_step_by_step_finds_what_a_fresh_index_finds() {
        let ids: Vec<u32> = (0..300u32).map(|i| (i * i / 7) % 5).collect();
        let copy = ContextCopy::new(16);
        let mut state = copy.new_state();
        for end in 1..ids.len() {
            let mut fresh = copy.new_state();
            let (grown, once) = (copy.offer(&mut state, &ids[..end]), copy.offer(&mut fresh, &ids[..end]));
            assert_eq!(grown, once, "after {end} ids");
        }
    }
}
