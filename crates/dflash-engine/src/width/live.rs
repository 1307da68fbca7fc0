use std::sync::Arc;

use super::{Company, Outcome};
use crate::StepCosts;

/// Rows 1, 2, to 4, to 8, to 16 and so on share a correction.
const BUCKETS: usize = 8;
/// How fast the correction of all costs follows, and that of each beside it: slower, so that a machine that slows
/// down as a whole is not taken for one at which some steps do.
const COMMON: f64 = 1.0 / 16.0;
const OWN: f64 = 1.0 / 32.0;
/// A cost that was not seen for long is known badly, so that one cycle may count for this much.
const STALE: f64 = 0.5;
/// A common correction that moved by more than this since the last plain step asks for another one: it may have
/// been that of the other steps alone.
const DRIFT: f64 = 0.1;
/// A plain step this far from its estimate is followed by another one, but not by ever more of them.
const ODD: f64 = 0.25;
const MOST_ODD: usize = 2;
/// A cycle that was disturbed for a moment counts for no more than this.
const MOST: f64 = 2.0;

/// The step costs of the table, corrected by what the cycles of this sequence took: contexts grow, and machines
/// are shared.
pub(super) struct LiveCosts {
    table: Arc<StepCosts>,
    company: Company,
    common: f64,
    /// The correction at the last plain step.
    common_at_plain: f64,
    /// Plain steps in a row that were far from their estimate: they may have been disturbed.
    odd_plain_steps: usize,
    verify: [Own; BUCKETS],
    propose: Vec<f64>,
}

/// The correction of one cost, beside the common one.
#[derive(Clone, Copy)]
struct Own {
    factor: f64,
    /// Cycles since it was seen.
    age: i32,
}

impl LiveCosts {
    pub fn new(table: Arc<StepCosts>) -> Self {
        let propose = vec![1.0; table.propose.len()];
        Self {
            table,
            company: Company::ALONE,
            common: 1.0,
            common_at_plain: 1.0,
            odd_plain_steps: 0,
            verify: [Own { factor: 1.0, age: 0 }; BUCKETS],
            propose,
        }
    }

    /// The next step is shared so.
    pub fn meet(&mut self, company: Company) {
        self.company = company;
    }

    /// Whom the step is shared with.
    pub fn company(&self) -> Company {
        self.company
    }

    /// Seconds of a step of so many rows of all sequences.
    pub fn step(&self, rows: usize) -> f64 {
        self.table.verify.at(rows) * self.common * self.own(rows)
    }

    /// Seconds for a sequence that verifies so many rows while the others decode plainly: its share of the step that is
    /// made anyway, and all of what it adds.
    pub fn verify(&self, rows: usize) -> f64 {
        let Company { sequences, rows: all, .. } = self.company;
        let added = self.step(all + rows - 1);
        match sequences {
            1 => added,
            _ => self.plain() + (added - self.step(all)).max(0.0),
        }
    }

    /// Seconds of a plain id: the share of a step in which all decode plainly.
    pub fn plain(&self) -> f64 {
        self.step(self.company.rows) / self.company.sequences as f64
    }

    /// Seconds of a sequence's part in a step of `all` rows, of which it had `rows`.
    pub fn share(&self, rows: usize, all: usize) -> f64 {
        let plain_step = self.step(self.company.rows);
        self.took(rows, all, self.step(all).max(if self.company.sequences == 1 { 0.0 } else { plain_step }))
    }

    /// The same, where the step took `seconds`.
    pub fn took(&self, rows: usize, all: usize, seconds: f64) -> f64 {
        let Company { sequences, rows: before, .. } = self.company;
        if sequences == 1 {
            return seconds;
        }
        let added = (rows - 1) as f64 / all.saturating_sub(before).max(1) as f64;
        self.plain() + (seconds - self.step(before)) * added.min(1.0)
    }

    /// Whether a proposal takes a time worth knowing.
    pub fn is_costly(&self, proposer: usize) -> bool {
        self.table.propose[proposer].is_some()
    }

    /// Seconds of a proposal for so many rows, in the company of late.
    pub fn propose(&self, proposer: usize, rows: usize) -> f64 {
        self.propose_among(proposer, rows, self.company.drafting)
    }

    /// Seconds of a sequence's part in a proposal for so many rows of each of `mates` sequences.
    pub fn propose_among(&self, proposer: usize, rows: usize, mates: usize) -> f64 {
        let curve = self.table.propose[proposer].as_ref();
        let pass = |curve: &crate::Curve| curve.at(mates * rows) / mates as f64;
        curve.map_or(0.0, |curve| pass(curve) * self.common * self.propose[proposer])
    }

    /// The correction of a step's cost beside the common one. Costs of a shared step are compared row by row, so there
    /// the corrections go over into each other.
    fn own(&self, rows: usize) -> f64 {
        let after = bucket(rows);
        if self.company.rows == 1 || after == 0 {
            return self.verify[after].factor;
        }
        let (below, above) = (self.verify[after - 1].factor, self.verify[after].factor);
        let part = (rows as f64).log2() - (after - 1) as f64;
        below + (above - below) * part.min(1.0)
    }

    /// A cycle took so long.
    pub fn saw(&mut self, outcome: &Outcome<'_>) {
        if let Some(proposer) = outcome.proposer {
            let estimate = self.propose_among(proposer, outcome.planned, outcome.mates);
            let draft = ratio(outcome.draft_s, estimate);
            self.propose[proposer] *= 1.0 + OWN * (draft - 1.0);
        }
        self.saw_step(outcome.rows, outcome.step_s, outcome.verified == 1);
    }

    /// A step of so many rows of all sequences took so long.
    pub fn saw_step(&mut self, rows: usize, seconds: f64, plain: bool) {
        let step = ratio(seconds, self.step(rows));
        self.verify.iter_mut().for_each(|own| own.age += 1);
        self.verify[bucket(rows)].see(step);
        self.common *= 1.0 + COMMON * (step - 1.0);
        if plain {
            self.common_at_plain = self.common;
            let odd = (step - 1.0).abs() > ODD;
            self.odd_plain_steps = if odd { self.odd_plain_steps + 1 } else { 0 };
        }
    }

    /// Whether a plain step would tell much: others have drifted, or the last one was not what it should have been.
    pub fn drifted(&self) -> bool {
        let odd = (1..=MOST_ODD).contains(&self.odd_plain_steps);
        odd || (self.common / self.common_at_plain - 1.0).abs() > DRIFT
    }
}

impl Own {
    fn see(&mut self, ratio: f64) {
        let weight = (1.0 - (1.0 - OWN).powi(self.age)).min(STALE);
        self.factor *= 1.0 + weight * (ratio - 1.0);
        self.age = 0;
    }
}

/// Measured over estimated, 1 where nothing was measured.
fn ratio(seconds: f64, estimate: f64) -> f64 {
    let measured = seconds > 0.0 && estimate > 0.0;
    if measured { (seconds / estimate).clamp(1.0 / MOST, MOST) } else { 1.0 }
}

fn bucket(rows: usize) -> usize {
    (rows.next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    fn costs() -> LiveCosts {
        let verify = Curve::new(vec![(1, 1.0), (16, 4.0)]);
        let propose = vec![None, Some(Curve::new(vec![(2, 0.5), (16, 0.5)]))];
        LiveCosts::new(Arc::new(StepCosts { verify, propose }))
    }

    fn outcome(proposer: Option<usize>, rows: usize, draft_s: f64, step_s: f64) -> Outcome<'static> {
        let (planned, verified, judged) = (rows, rows, rows);
        Outcome {
            proposer,
            class: 0,
            planned,
            verified,
            judged,
            accepted: &[],
            ended: false,
            committed: 1,
            draft_s,
            mates: 1,
            step_s,
            rows,
        }
    }

    #[test]
    fn the_table_holds_until_cycles_tell_otherwise() {
        let mut costs = costs();
        assert_eq!(
            (costs.plain(), costs.verify(16), costs.propose(0, 8), costs.propose(1, 8)),
            (1.0, 4.0, 0.0, 0.5)
        );
        costs.saw(&outcome(Some(1), 16, 0.5, 4.0));
        assert_eq!((costs.plain(), costs.verify(16), costs.propose(1, 8)), (1.0, 4.0, 0.5));
    }

    #[test]
    fn a_slower_machine_is_slower_at_everything_and_a_slower_width_by_itself() {
        let mut slow = costs();
        for _ in 0..200 {
            slow.saw(&outcome(None, 1, 0.0, 1.5));
            let step = 1.5 * 4.0;
            slow.saw(&outcome(Some(1), 16, 0.75, step));
        }
        for (got, wanted) in [(slow.plain(), 1.5), (slow.verify(16), 6.0), (slow.propose(1, 2), 0.75)] {
            assert!((got / wanted - 1.0).abs() < 0.02, "{got} for {wanted}");
        }
        let mut wide = costs();
        for _ in 0..200 {
            wide.saw(&outcome(None, 1, 0.0, 1.0));
            wide.saw(&outcome(Some(1), 16, 0.5, 6.0));
        }
        for (got, wanted) in [(wide.plain(), 1.0), (wide.verify(16), 6.0)] {
            assert!((got / wanted - 1.0).abs() < 0.05, "{got} for {wanted}");
        }
    }

    #[test]
    fn a_plain_step_is_asked_for_when_others_drift_and_counts_the_more_the_older_the_last_one_is() {
        let mut costs = costs();
        for _ in 0..20 {
            costs.saw(&outcome(Some(1), 16, 0.5, 6.0));
        }
        assert!(costs.drifted() && costs.plain() > 1.2);
        costs.saw(&outcome(None, 1, 0.0, 1.0));
        assert!(!costs.drifted() && costs.plain() < 1.15, "{}", costs.plain());
    }

    #[test]
    fn an_odd_plain_step_asks_for_another_one_twice_at_most() {
        let mut costs = costs();
        let mut odd = || {
            costs.saw(&outcome(None, 1, 0.0, 2.0 * costs.plain()));
            costs.drifted()
        };
        assert_eq!([odd(), odd(), odd(), odd()], [true, true, false, false]);
        costs.saw(&outcome(None, 1, 0.0, costs.plain()));
        costs.saw(&outcome(None, 1, 0.0, 2.0 * costs.plain()));
        assert!(costs.drifted());
    }

    #[test]
    fn a_moment_of_disturbance_counts_little() {
        let mut costs = costs();
        costs.saw(&outcome(None, 1, 0.0, 1000.0));
        assert!(costs.plain() < 1.2, "{}", costs.plain());
        costs.saw(&outcome(None, 1, 0.0, 0.0));
        assert!(costs.plain() > 1.0, "no time is no measurement");
    }
}
