use std::collections::VecDeque;

/// Committed ids over which the loss is bounded.
const SPAN: usize = 256;
/// Plain steps that may be lost in them: 3 %, of which a quarter is kept for what the estimates do not see, such as
/// the proposers' looking on in plain steps.
const MOST: f64 = 0.75 * 0.03 * SPAN as f64;
/// The part of what is left that one cycle may lose: who stakes all of it is out after two losses, however good the
/// odds, and being out costs all gains of the rest of the span.
const STAKE: f64 = 0.45;
/// The part for a cycle whose first drafted id is surely right: it grows from [`STAKE`] as the probability goes from
/// [`DOUBT`] to 1.
const SURE_STAKE: f64 = 0.9;
const DOUBT: f64 = 0.9;

/// What the latest cycles won or lost against plain decoding, in plain steps.
///
/// It gives the guarantee of the policy: no run of cycles of up to [`SPAN`] ids loses more than [`MOST`], because
/// a cycle begins only if the most that it can lose still fits, whatever the draft does.
pub(super) struct Ledger {
    /// Ids and loss of each cycle (of plain steps in a row together), the latest last.
    cycles: VecDeque<(usize, f64)>,
    /// Ids of all of them.
    ids: usize,
    /// Plain steps that may be lost in all before the guarantee is broken.
    balance: f64,
}

impl Ledger {
    pub fn new() -> Self {
        Self { cycles: VecDeque::with_capacity(SPAN + 1), ids: 0, balance: MOST }
    }

    /// Plain steps that the next cycle may lose, whose first drafted id is right with the probability `sure`.
    pub fn stake(&self, sure: f64) -> f64 {
        let beyond_doubt = ((sure - DOUBT) / (1.0 - DOUBT)).clamp(0.0, 1.0);
        (STAKE + (SURE_STAKE - STAKE) * beyond_doubt) * self.balance
    }

    /// [`MOST`] less what the worst of all runs of cycles that end now has lost.
    fn left(&self) -> f64 {
        let (mut ids, mut loss, mut worst) = (0, 0.0, 0.0_f64);
        for &(more, lost) in self.cycles.iter().rev() {
            if ids >= SPAN {
                break;
            }
            ids += more;
            loss += lost;
            worst = worst.max(loss);
        }
        MOST - worst
    }

    /// A cycle delivered `ids` and took as long as `steps` plain steps.
    pub fn add(&mut self, ids: usize, steps: f64) {
        let loss = steps - ids as f64;
        match self.cycles.back_mut() {
            Some((run, 0.0)) if loss == 0.0 => *run += ids,
            _ => self.cycles.push_back((ids, loss)),
        }
        self.ids += ids;
        while let Some(&(first, _)) = self.cycles.front()
            && self.ids - first >= SPAN
        {
            self.cycles.pop_front();
            self.ids -= first;
        }
        self.balance = self.left();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_in_a_row_use_it_up_and_are_forgotten_after_the_span() {
        let mut ledger = Ledger::new();
        assert_eq!(ledger.balance, MOST);
        ledger.add(1, 3.0);
        ledger.add(1, 2.0);
        assert!((ledger.balance - (MOST - 3.0)).abs() < 1e-9);
        (0..SPAN - 2).for_each(|_| ledger.add(1, 1.0));
        assert!((ledger.balance - (MOST - 3.0)).abs() < 1e-9, "still within the span");
        ledger.add(1, 1.0);
        assert!((ledger.balance - (MOST - 1.0)).abs() < 1e-9, "the first is out of it");
        ledger.add(1, 1.0);
        assert_eq!(ledger.balance, MOST);
    }

    #[test]
    fn gains_before_a_loss_do_not_pay_for_it_but_gains_after_it_do() {
        let mut ledger = Ledger::new();
        ledger.add(10, 2.0);
        ledger.add(1, 4.0);
        assert!((ledger.balance - (MOST - 3.0)).abs() < 1e-9, "a run may begin after the gain");
        ledger.add(5, 3.0);
        assert!((ledger.balance - (MOST - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn losses_in_a_row_leave_something_to_win_back_with() {
        let mut ledger = Ledger::new();
        for _ in 0..6 {
            let stake = ledger.stake(0.5);
            assert!(stake > 0.0);
            ledger.add(1, 1.0 + stake);
        }
        let spent = ledger.stake(0.5);
        assert!(spent < 0.03 * MOST && ledger.balance > 0.0);
        ledger.add(4, 2.0);
        assert!(ledger.stake(0.5) > 5.0 * spent, "a gain is won back at once");
    }

    #[test]
    fn more_is_staked_on_what_is_sure() {
        let ledger = Ledger::new();
        let [half, doubtful, nearly, sure] = [0.5, 0.9, 0.95, 1.0].map(|sure| ledger.stake(sure));
        assert!(half == doubtful && doubtful < nearly && nearly < sure && sure < MOST);
    }

    #[test]
    fn it_stays_small() {
        let mut ledger = Ledger::new();
        for cycle in 0..10_000 {
            ledger.add(1 + cycle % 3, if cycle % 2 == 0 { 1.5 } else { 2.5 });
            assert!(ledger.cycles.len() <= SPAN && ledger.cycles.capacity() < 2 * SPAN + 2);
        }
    }
}
