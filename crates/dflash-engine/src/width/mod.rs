//! Which proposer drafts, and how many rows the target verifies. It decides about time, never about text.

mod acceptance;
mod adaptive;
mod experience;
mod fixed;
mod ledger;
mod live;
mod promise;
#[cfg(test)]
mod tests;

pub use adaptive::Adaptive;
pub use experience::Experience;
pub use fixed::Fixed;

use serde::Serialize;

use crate::Offer;

/// What the next cycle does: rows to verify, and who drafts all but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Index of the proposer; `None` for a plain step.
    pub proposer: Option<usize>,
    /// Rows, the staged token's included.
    pub width: usize,
}

impl Plan {
    /// One row, nothing drafted.
    pub const PLAIN: Self = Self { proposer: None, width: 1 };
}

/// What a cycle showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Index of the proposer; `None` for a plain step.
    pub proposer: Option<usize>,
    /// Class of its offer.
    pub class: usize,
    /// Rows that the plan asked for.
    pub planned: usize,
    /// Rows verified.
    pub verified: usize,
    /// Rows by which the proposer is judged: those verified, or those planned where it gave fewer ids.
    pub judged: usize,
    /// Drafted ids accepted.
    pub accepted: usize,
    /// Ids delivered.
    pub committed: usize,
    /// Seconds of the proposal.
    pub draft_s: f64,
    /// Seconds of all else: verification and what follows from it.
    pub step_s: f64,
}

/// Chooses proposer and width for every cycle of one sequence.
pub trait WidthPolicy: Send {
    /// The next cycle, given what every proposer offers; at most `limit` rows (at least 2).
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan;

    /// The plan's ids are drafted, with the proposer's own probability of each (none, where it has none): how
    /// many rows of `plan.width` shall be verified, 1 to drop them all.
    fn cut(&mut self, plan: &Plan, _class: usize, _confidence: &[f32]) -> usize {
        plan.width
    }

    /// The cycle is over.
    fn record(&mut self, outcome: &Outcome);

    /// The sequence is over: what the policy has counted, all zero where it counts nothing.
    fn finish(&mut self) -> PolicyStats {
        PolicyStats::default()
    }
}

/// What a policy did and why. A cycle without drafted ids is a plain step; one reason counts for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PolicyStats {
    /// Seconds won over plain decoding (lost, where negative), by the estimate of a plain step.
    pub gained_s: f64,
    /// Tries of a proposer that did not promise to pay.
    pub probes: usize,
    /// Blocks that were drafted and not verified, since they promised too little.
    pub dropped_blocks: usize,
    /// Plain steps because no proposer had anything to offer.
    pub plain_without_offer: usize,
    /// Plain steps because no offer promised to pay.
    pub plain_unpromising: usize,
    /// Plain steps because drafting had lost as much as it may.
    pub plain_at_loss_limit: usize,
    /// Plain steps to know what they cost.
    pub plain_to_measure: usize,
}
