use super::acceptance::Mean;
use super::live::LiveCosts;

/// Widths at which a block may be drafted; the widest that is allowed is one too.
pub(super) const WIDTHS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Blocks that a running mean of promises remembers.
const MEMORY: f64 = 16.0;

/// The best cut of a drafted block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cut {
    /// Rows to verify.
    pub rows: usize,
    /// Ids to be expected of them.
    pub ids: f64,
    /// Seconds of the step.
    pub seconds: f64,
}

impl Cut {
    /// What it is worth, in ids, where `pace` ids a second can be had anyway.
    pub fn worth(&self, pace: f64) -> f64 {
        self.ids - pace * self.seconds
    }

    /// The best of 1 to `most` rows; row by row the probability that it is reached, that is accepted with all before
    /// it.
    pub fn best(reaches: impl Iterator<Item = f64>, most: usize, costs: &LiveCosts, pace: f64) -> Self {
        let mut best = Self { rows: 1, ids: 1.0, seconds: costs.plain() };
        let mut ids = 1.0;
        for (rows, reach) in (2..=most).zip(reaches) {
            ids += reach;
            let cut = Self { rows, ids, seconds: costs.verify(rows) };
            if cut.worth(pace) > best.worth(pace) {
                best = cut;
            }
        }
        best
    }
}

/// The reaches of a chain, from the probabilities that each id is accepted if all before it are.
pub(super) fn chain(acceptance: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
    acceptance.scan(1.0, |reach, acceptance| {
        *reach *= acceptance;
        Some(*reach)
    })
}

/// What blocks of one width have promised of late, each cut at its best.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    ids: Mean,
    /// The time that they take, in plain steps.
    steps: Mean,
}

impl Promise {
    /// Before any block: what means per position promise.
    pub fn new(cut: Cut, plain: f64) -> Self {
        let mean = |value| Mean::new(value, 1.0, MEMORY);
        Self { ids: mean(cut.ids), steps: mean(cut.seconds / plain) }
    }

    /// A block at a time when a plain step took `plain` seconds.
    pub fn see(&mut self, cut: Cut, plain: f64) {
        self.ids.see(cut.ids);
        self.steps.see(cut.seconds / plain);
    }

    /// As [`Cut::worth`], with the seconds of drafting.
    pub fn worth(&self, draft_seconds: f64, plain: f64, pace: f64) -> f64 {
        self.ids.value - pace * (self.steps.value * plain + draft_seconds)
    }
}
