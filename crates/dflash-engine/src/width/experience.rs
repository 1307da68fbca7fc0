use serde::{Deserialize, Serialize};

use super::acceptance::{BINS, Mean, Positions, bin, prior_of_bin};
use crate::Proposer;

/// Counts are halved beyond this, so that what is learned stays recent.
const MOST: f64 = 4096.0;
/// Observations that a prior from nowhere counts for, and those that experience counts for at most.
const GUESS: f64 = 3.0;
const KNOWN: f64 = 12.0;
/// Blocks that make a class known.
const RICH: f64 = 32.0;
/// Observations that a running mean of acceptance remembers.
const MEMORY: f64 = 48.0;

/// What was accepted of whom, over the requests of a pair: the prior of the next one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experience {
    proposers: Vec<Counts>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    /// Per class and position, given that all before were accepted.
    classes: Vec<Vec<Count>>,
    /// Per bin of the draft's own probability, given the same.
    bins: Vec<Count>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    seen: f64,
    accepted: f64,
}

impl Experience {
    /// None yet, of proposers with blocks of `block` rows.
    pub fn new(proposers: &[Box<dyn Proposer>], block: usize) -> Self {
        let counts = proposers.iter().map(|proposer| Counts {
            classes: vec![vec![Count::default(); block]; proposer.classes()],
            bins: vec![Count::default(); BINS],
        });
        Self { proposers: counts.collect() }
    }

    /// Whether it could be that of the same proposers and blocks.
    pub fn fits(&self, other: &Self) -> bool {
        let shape = |experience: &Self| {
            let of = |counts: &Counts| {
                (counts.classes.iter().map(Vec::len).collect::<Vec<_>>(), counts.bins.len())
            };
            experience.proposers.iter().map(of).collect::<Vec<_>>()
        };
        shape(self) == shape(other) && self.counts().all(|count| count.sound())
    }

    /// Adds what a request showed.
    pub(super) fn learn(&mut self, request: &Self) {
        let new: Vec<Count> = request.counts().copied().collect();
        for (count, new) in self.counts_mut().zip(new) {
            count.seen += new.seen;
            count.accepted += new.accepted;
            while count.seen > MOST {
                count.seen /= 2.0;
                count.accepted /= 2.0;
            }
        }
    }

    /// The most probable id of a position was judged, all before it having been accepted.
    pub(super) fn see_position(&mut self, proposer: usize, class: usize, position: usize, accepted: bool) {
        self.proposers[proposer].classes[class][position].see(accepted);
    }

    /// An id of that probability was judged, all before it having been accepted.
    pub(super) fn see_confidence(&mut self, proposer: usize, confidence: f32, accepted: bool) {
        self.proposers[proposer].bins[bin(confidence)].see(accepted);
    }

    /// Nothing seen, of the same shape.
    pub(super) fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.counts_mut().for_each(|count| *count = Count::default());
        empty
    }

    /// Acceptance per position of a class; `guess` where nothing is known.
    pub(super) fn positions(&self, proposer: usize, class: usize, guess: f64) -> Positions {
        let counts = &self.proposers[proposer].classes[class];
        let tried = counts.iter().take_while(|count| count.seen > 0.0).count();
        Positions::new(counts.iter().map(|count| count.prior(guess)).collect(), tried)
    }

    /// Means per bin of confidence.
    pub(super) fn bins(&self, proposer: usize) -> Vec<Mean> {
        let counts = self.proposers[proposer].bins.iter().enumerate();
        counts.map(|(bin, count)| count.prior(prior_of_bin(bin))).collect()
    }

    /// Whether enough was seen of a class to know what it is like.
    pub(super) fn is_rich(&self, proposer: usize, class: usize) -> bool {
        self.proposers[proposer].classes[class].first().is_some_and(|count| count.seen >= RICH)
    }

    fn counts(&self) -> impl Iterator<Item = &Count> {
        self.proposers.iter().flat_map(|counts| counts.classes.iter().flatten().chain(&counts.bins))
    }

    fn counts_mut(&mut self) -> impl Iterator<Item = &mut Count> {
        self.proposers
            .iter_mut()
            .flat_map(|counts| counts.classes.iter_mut().flatten().chain(&mut counts.bins))
    }
}

impl Count {
    fn see(&mut self, accepted: bool) {
        self.seen += 1.0;
        self.accepted += f64::from(u8::from(accepted));
    }

    fn sound(&self) -> bool {
        (0.0..=self.seen).contains(&self.accepted) && self.seen <= MOST
    }

    fn prior(&self, guess: f64) -> Mean {
        let value = (self.accepted + GUESS * guess) / (self.seen + GUESS);
        Mean::new(value, GUESS + self.seen.min(KNOWN - GUESS), MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seen: f64, accepted: f64) -> Experience {
        let count = Count { seen, accepted };
        Experience { proposers: vec![Counts { classes: vec![vec![count]], bins: vec![count; BINS] }] }
    }

    #[test]
    fn it_stays_sound_however_long_a_request_was() {
        let mut known = of(MOST, 1000.0);
        for blocks in [1.0, 5000.0, 1e6] {
            known.learn(&of(blocks, blocks / 2.0));
            assert!(known.fits(&of(0.0, 0.0)), "after {blocks} blocks: {known:?}");
        }
        assert!((known.bins(0)[0].value - 0.5).abs() < 0.02, "what came last counts for most");
    }

    #[test]
    fn counts_that_make_no_sense_do_not_fit() {
        let none = of(0.0, 0.0);
        for (seen, accepted) in [(1.0, 2.0), (-1.0, -2.0), (1e300, 1.0), (f64::NAN, 0.0), (4.0, f64::NAN)] {
            assert!(!of(seen, accepted).fits(&none), "{accepted} of {seen}");
        }
    }
}
