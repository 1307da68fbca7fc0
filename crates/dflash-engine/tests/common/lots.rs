//! A guard that says which ids may come, by lot.

use dflash_engine::{TokenGuard, TokenMask, Verdict};
use dflash_testkit::Rng;

/// Ids that may come, by lot, as a function of the ids before.
#[derive(Clone)]
pub struct Lots {
    seed: u64,
    vocab: u32,
    mask: Option<TokenMask>,
}

impl Lots {
    pub fn new(seed: u64, vocab: usize) -> Self {
        Self { seed, vocab: vocab as u32, mask: None }.drawn()
    }

    /// Now and then all may come, or only one.
    fn drawn(mut self) -> Self {
        let mut rng = Rng::new(self.seed);
        let kind = rng.below(8);
        self.mask = (kind > 2).then(|| {
            let mut mask = TokenMask::new(self.vocab as usize);
            let chosen = rng.below(self.vocab);
            mask.set(chosen);
            (0..self.vocab).filter(|_| kind > 3 && rng.below(3) > 0).for_each(|id| mask.set(id));
            mask
        });
        self
    }

    fn after(self, id: u32) -> Self {
        let seed = (self.seed ^ u64::from(id)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        Self { seed, ..self }.drawn()
    }

    fn allows(&self, id: u32) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask.contains(id))
    }
}

impl TokenGuard for Lots {
    fn push(&mut self, id: u32) -> Verdict {
        assert!(self.allows(id), "{id} was not allowed");
        *self = self.clone().after(id);
        Verdict::Go
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        self.mask.as_ref()
    }

    fn fits(&mut self, ids: &[u32]) -> usize {
        let mut ahead = self.clone();
        let fits = |&&id: &&u32| {
            let fits = ahead.allows(id);
            ahead = ahead.clone().after(id);
            fits
        };
        ids.iter().take_while(fits).count()
    }

    /// The lowest allowed id, and again: right where only one is allowed.
    fn expected(&mut self) -> Vec<u32> {
        let (mut ahead, mut ids) = (self.clone(), Vec::new());
        while let Some(mask) = ahead.mask.clone().filter(|_| ids.len() < 40) {
            let lowest = (0..self.vocab).find(|&id| mask.contains(id)).expect("some id");
            ids.push(lowest);
            ahead = ahead.after(lowest);
        }
        ids
    }
}
