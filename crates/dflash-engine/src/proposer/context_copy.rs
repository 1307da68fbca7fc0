use std::collections::HashMap;
use std::ops::Range;

use dflash_tensor::{BackendError, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};

/// Longest suffix that is looked up.
const LONGEST: usize = 6;
/// Suffixes of this length and more are believed before anything else.
const LONG: usize = 3;
/// Ids after the place at which a copy broke off within which it may go on.
const NEAR: usize = 24;
/// Ids of its own that an answer may have before a copy that broke off is given up.
const PATIENCE: usize = 8;

/// Classes: a repeated suffix of 1 to [`LONGEST`] ids, then these two.
const SUFFIXES: usize = LONGEST;
/// The last id occurs again shortly after the place where the last copy broke off: something was left out or put in.
const RESUMED: usize = SUFFIXES;
/// It does not: ids were replaced by as many others.
const REPLACED: usize = SUFFIXES + 1;
/// Probability that the first id of a copy is right, by class, until it was measured.
const PRIORS: [f32; SUFFIXES + 2] = [0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.5, 0.3];

/// Copies what followed the last occurrence of the sequence's longest repeated suffix, from its own prompt and answer,
/// or goes on with a copy that an edit has interrupted. Costs next to nothing, and pays in code, quotations and tables.
pub struct ContextCopy {
    block: usize,
}

/// Where every n-gram last ended, per length; `None` at the end of the sequence is replaced when it grows.
#[derive(Default)]
struct Index {
    /// Ids that are indexed, except for n-grams ending at the last of them.
    seen: usize,
    ends: [HashMap<[u32; LONGEST], usize>; LONGEST],
    /// The last copy that was drafted.
    copy: Option<Copy>,
    /// Position from which the last offer copies.
    source: usize,
}

/// A copy into the sequence.
struct Copy {
    /// Position from which it was taken.
    from: usize,
    /// Position to which it would have gone.
    to: usize,
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
            for n in 1..=LONGEST {
                if let Some(key) = key(ids, end, n) {
                    self.ends[n - 1].insert(key, end);
                }
            }
        }
        self.seen = ids.len();
    }

    /// Class and source of the best copy.
    fn find(&self, ids: &[u32]) -> Option<(usize, usize)> {
        let suffix = |n: usize| Some((n - 1, *self.ends[n - 1].get(&key(ids, ids.len(), n)?)?));
        let long = (LONG..=LONGEST).rev().find_map(suffix);
        let resumed = || self.copy.as_ref().and_then(|copy| copy.resume(ids));
        long.or_else(resumed).or_else(|| (1..LONG).rev().find_map(suffix))
    }
}

impl Copy {
    /// Goes on after what the sequence said instead of the rest of the copy.
    fn resume(&self, ids: &[u32]) -> Option<(usize, usize)> {
        let kept = ids[self.to..].iter().zip(&ids[self.from..]).take_while(|(is, was)| is == was).count();
        let (broken, own) = (self.from + kept, ids.len() - self.to - kept);
        if own > PATIENCE || broken >= self.to {
            return None;
        }
        let last = ids.last()?;
        // What it was copied from ends where the copy begins.
        let near = broken..(broken + NEAR).min(self.to);
        let again = ids[near.clone()].iter().position(|id| id == last).map(|offset| broken + offset + 1);
        let found = again.map_or((REPLACED, broken + own), |source| (RESUMED, source));
        (found.1 < self.to).then_some(found)
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
        PRIORS.len()
    }

    fn prior(&self, class: usize) -> f32 {
        PRIORS[class]
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, state: &mut ProposerState, ids: &[u32]) -> Offer {
        let index = state.downcast_mut::<Index>().expect("state of this proposer");
        index.extend(ids);
        match index.find(ids) {
            Some((class, source)) => {
                index.source = source;
                Offer { ids: (ids.len() - source).min(self.block - 1), class }
            }
            None => Offer { ids: 0, class: 0 },
        }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            let index = request.state.downcast_mut::<Index>().expect("state of this proposer");
            index.copy = Some(Copy { from: index.source, to: request.ids.len() });
            request.drafted.extend(request.ids[index.source..].iter().take(request.width - 1));
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
        assert_eq!(copied(&ids, 4), (Offer { ids: 3, class: 3 }, vec![50, 1, 2]));
        let ids = [7, 1, 2, 3, 50, 8, 1, 2, 3, 60, 9, 1, 2, 3];
        assert_eq!(copied(&ids, 3), (Offer { ids: 2, class: 2 }, vec![60, 9]));
    }

    #[test]
    fn partial_copies_at_the_end_and_none_without_a_match() {
        let ids = [1, 2, 3, 4, 1, 2, 3];
        assert_eq!(copied(&ids, 16), (Offer { ids: 4, class: 2 }, vec![4, 1, 2, 3]));
        assert_eq!(copied(&[1, 2, 3, 4, 5, 6], 16).0.ids, 0);
        assert_eq!(copied(&[1], 16).0.ids, 0);
        assert_eq!(copied(&[5, 5, 5, 5], 16), (Offer { ids: 1, class: 2 }, vec![5]));
    }

    #[test]
    fn short_suffixes_come_last() {
        assert_eq!(copied(&[1, 2, 3, 9, 2], 4), (Offer { ids: 3, class: 0 }, vec![3, 9, 2]));
        assert_eq!(copied(&[1, 2, 3, 9, 1, 2], 4), (Offer { ids: 3, class: 1 }, vec![3, 9, 1]));
    }

    /// Drafts after a text, then sees `said` instead, and drafts again.
    fn resumed(text: &[u32], said: &[u32]) -> (Offer, Vec<u32>) {
        let copy = ContextCopy::new(5);
        let mut state = copy.new_state();
        let mut draft = |ids: &[u32]| {
            let offer = copy.offer(&mut state, ids);
            let (mut drafted, confidence) = (Vec::new(), &mut Vec::new());
            let (width, drafts) = (offer.ids + 1, &mut drafted);
            let state = &mut state;
            let request =
                ProposeRequest { state, ids, rule: None, width, ranks: 1, drafted: drafts, confidence };
            copy.propose(&mut [request]).unwrap();
            (offer, drafted)
        };
        assert_eq!(draft(text).1, [4, 5, 6, 7]);
        draft(&[text, said].concat())
    }

    #[test]
    fn a_copy_goes_on_after_an_edit() {
        let text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 50, 51, 1, 2, 3];
        let offer = |class| Offer { ids: 4, class };
        assert_eq!(resumed(&text, &[4, 60]), (offer(REPLACED), vec![6, 7, 8, 9]), "60 for 5");
        assert_eq!(resumed(&text, &[4, 60, 61]), (offer(REPLACED), vec![7, 8, 9, 10]), "60 61 for 5 6");
        assert_eq!(resumed(&text, &[4, 7]), (offer(RESUMED), vec![8, 9, 10, 11]), "5 6 left out");
        assert_eq!(resumed(&text, &[4, 60, 5]), (offer(RESUMED), vec![6, 7, 8, 9]), "60 put in");
        let lost: Vec<u32> = (70..80).collect();
        assert_eq!(resumed(&text, &lost).0.ids, 0, "another text altogether");
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
