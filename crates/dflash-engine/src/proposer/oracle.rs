use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dflash_tensor::{BackendError, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};

/// What an [`Oracle`] knows: prompt and continuation of the request in work. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Truth(Arc<Mutex<Vec<u32>>>);

impl Truth {
    /// The next request is continued so: prompt and answer.
    pub fn set(&self, ids: Vec<u32>) {
        *self.lock() = ids;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A script, not a model: every drafted id is right with the same probability, whatever came before, so that a
/// measurement shows what the runtime would make of a draft of that acceptance.
///
/// A draft model below it runs its passes, so that time is what it would be; what it says is thrown away.
pub struct Oracle {
    rate: f64,
    block: usize,
    vocab: u32,
    truth: Truth,
    draft: Option<Box<dyn Proposer>>,
}

impl Oracle {
    /// Right with probability `rate`, in blocks of `block` rows, among ids below `vocab`, at the cost of `draft`.
    pub fn new(rate: f64, block: usize, vocab: u32, truth: Truth, draft: Option<Box<dyn Proposer>>) -> Self {
        Self { rate, block, vocab, truth, draft }
    }

    /// What it says at a position.
    fn say(&self, truth: &[u32], position: usize) -> u32 {
        let id = truth.get(position).copied().unwrap_or(0);
        match draw(position as u64, u64::from(id)) < self.rate {
            true => id,
            false => (id + 1) % self.vocab,
        }
    }
}

/// A number in 0..1 by position and id, always the same: one round of SplitMix64.
fn draw(position: u64, id: u64) -> f64 {
    let mut bits =
        (position << 32 | id).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Proposer for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn new_state(&self) -> ProposerState {
        self.draft.as_ref().map_or_else(|| Box::new(()) as _, |draft| draft.new_state())
    }

    fn taps(&self) -> &[usize] {
        self.draft.as_ref().map_or(&[], |draft| draft.taps())
    }

    fn prior(&self, _: usize) -> f32 {
        self.rate as f32
    }

    fn confident(&self) -> bool {
        true
    }

    fn costly(&self) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.costly())
    }

    fn observe(&self, state: &mut ProposerState, taps: Option<&Tensor>, rows: Range<usize>, upcoming: usize) {
        if let Some(draft) = &self.draft {
            draft.observe(state, taps, rows, upcoming);
        }
    }

    fn offer(&self, state: &mut ProposerState, ids: &[u32]) -> Offer {
        let most = self.draft.as_ref().map_or(usize::MAX, |draft| draft.offer(state, ids).ids);
        Offer { ids: most.min(self.block - 1), class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        if let Some(draft) = &self.draft {
            draft.propose(requests)?;
        }
        let truth = self.truth.lock();
        for request in requests {
            let first = request.ids.len();
            request.drafted.clear();
            request.drafted.extend((first..first + request.width - 1).map(|at| self.say(&truth, at)));
            request.confidence.clear();
            request.confidence.resize(request.drafted.len(), self.rate as f32);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: u32 = 4000;

    fn oracle(rate: f64) -> Oracle {
        let truth = Truth::default();
        truth.set((0..TRUTH).map(|at| at % 97).collect());
        Oracle::new(rate, 9, 97, truth, None)
    }

    /// What is drafted after every eighth id.
    fn drafted(oracle: &Oracle) -> Vec<u32> {
        let ids: Vec<u32> = (0..TRUTH).map(|at| at % 97).collect();
        let mut state = oracle.new_state();
        let mut blocks = Vec::new();
        for end in (8..TRUTH as usize).step_by(8) {
            let width = oracle.offer(&mut state, &ids[..end]).ids + 1;
            let (mut drafted, mut confidence) = (Vec::new(), Vec::new());
            let (ids, drafts) = (&ids[..end], &mut drafted);
            let state = &mut state;
            let request = ProposeRequest {
                state,
                ids,
                rule: None,
                width,
                ranks: 1,
                drafted: drafts,
                confidence: &mut confidence,
            };
            oracle.propose(&mut [request]).unwrap();
            assert_eq!((drafted.len(), confidence), (8, vec![oracle.rate as f32; 8]));
            blocks.extend(drafted);
        }
        blocks
    }

    fn right(rate: f64) -> f64 {
        let drafted = drafted(&oracle(rate));
        let right = drafted.iter().zip(8..).filter(|(id, at)| **id == at % 97);
        right.count() as f64 / drafted.len() as f64
    }

    #[test]
    fn it_is_right_as_often_as_it_should() {
        assert_eq!([right(0.0), right(1.0)], [0.0, 1.0]);
        for rate in [0.2, 0.5, 0.8] {
            assert!((right(rate) - rate).abs() < 0.03, "{} instead of {rate}", right(rate));
        }
    }

    #[test]
    fn it_says_the_same_again_and_only_ids_of_the_vocabulary() {
        assert_eq!(drafted(&oracle(0.6)), drafted(&oracle(0.6)));
        assert!(drafted(&oracle(0.0)).iter().all(|&id| id < 97));
        let past = Oracle::new(1.0, 4, 1, Truth::default(), None);
        assert_eq!(past.say(&[], 7), 0);
    }
}
