//! Which proposer drafts, and how many rows the target verifies. It decides about time, never about text.

mod acceptance;
mod adaptive;
mod allotment;
#[cfg(test)]
mod batch_tests;
mod company;
mod experience;
mod fixed;
mod ledger;
mod live;
mod probe;
mod promise;
#[cfg(test)]
mod tests;

pub use adaptive::Adaptive;
pub(crate) use allotment::{Allotment, Shown};
pub use company::Company;
pub use experience::Experience;
pub use fixed::Fixed;

use serde::Serialize;

use crate::{Node, Offer, best_first};

/// What the next cycle does: rows to verify, and who drafts all but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Index of the proposer; `None` for a plain step.
    pub proposer: Option<usize>,
    /// Rows of the block that is drafted, the staged token's included.
    pub width: usize,
    /// Alternatives that are drafted at every position: more than 1 for a tree.
    pub ranks: usize,
}

impl Plan {
    /// One row, nothing drafted.
    pub const PLAIN: Self = Self { proposer: None, width: 1, ranks: 1 };

    /// A chain of so many rows.
    pub fn chain(proposer: usize, width: usize) -> Self {
        Self { proposer: Some(proposer), width, ranks: 1 }
    }
}

/// What a cycle showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome<'a> {
    /// Index of the proposer; `None` for a plain step.
    pub proposer: Option<usize>,
    /// Class of its offer.
    pub class: usize,
    /// Rows that the plan asked for.
    pub planned: usize,
    /// Rows verified.
    pub verified: usize,
    /// Rows by which the proposer is judged: the first so many that the policy asked for, or those planned where it gave
    /// fewer ids. Those that were not verified could not be right.
    pub judged: usize,
    /// Rows of the drafted ids that were accepted, as the policy asked for them: from 1 on, and one after the other in a
    /// chain.
    pub accepted: &'a [usize],
    /// Whether the answer is over, so that nothing is known of what was drafted behind those.
    pub ended: bool,
    /// Ids delivered.
    pub committed: usize,
    /// Seconds of the proposal: this sequence's part of it.
    pub draft_s: f64,
    /// Sequences that the proposal was made for together.
    pub mates: usize,
    /// Seconds of all else: verification and what follows from it, of all sequences in the step.
    pub step_s: f64,
    /// Rows of all sequences in the step.
    pub rows: usize,
}

/// Chooses proposer and width for every cycle of one sequence.
pub trait WidthPolicy: Send {
    /// Who shares the next step; told before every plan.
    fn meet(&mut self, _company: Company) {}

    /// The next cycle, given what every proposer offers; at most `limit` rows (at least 2).
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan;

    /// The plan's ids are drafted: which of them shall be verified, parents before children, into `nodes`, which is
    /// empty. `confidence` is the proposer's own probability of each, position by position, `plan.ranks` for every
    /// position; none where it has none.
    fn grow(&mut self, plan: &Plan, _class: usize, confidence: &[f32], nodes: &mut Vec<Node>) {
        match (plan.ranks, confidence.len()) {
            (1, _) | (_, 0) => nodes.extend(Node::chain(plan.width - 1, 1.0)),
            (ranks, _) => {
                let probability = |position, rank| f64::from(confidence[position * ranks + rank]);
                nodes.extend(best_first(plan.width - 1, ranks, plan.width - 1, probability));
            }
        }
    }

    /// The cycle is over.
    fn record(&mut self, outcome: &Outcome<'_>);

    /// Whether a proposer shall be shown what is committed. One that misses anything is not asked again.
    fn watches(&self, _proposer: usize) -> bool {
        true
    }

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
