use std::sync::Arc;

use crate::{Offer, StepCosts};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Index of the proposer; `None` for a plain step.
    pub proposer: Option<usize>,
    /// Class of its offer.
    pub class: usize,
    /// Rows planned.
    pub width: usize,
    /// Drafted ids accepted.
    pub accepted: usize,
}

/// Chooses proposer and width for every cycle of one sequence. It decides about time, never about text.
pub trait WidthPolicy: Send {
    /// The next cycle, given what every proposer offers; at most `limit` rows (at least 2).
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan;

    /// The cycle is over.
    fn record(&mut self, outcome: &Outcome);
}

/// Always the same width, from the first proposer that has something to offer, the cheapest asked first.
pub struct Fixed {
    width: usize,
    order: Vec<usize>,
}

impl Fixed {
    /// `order` lists the proposers by preference.
    pub fn new(width: usize, order: Vec<usize>) -> Self {
        Self { width, order }
    }
}

impl WidthPolicy for Fixed {
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan {
        let offering = self.order.iter().copied().find(|&index| offers[index].ids > 0);
        offering.map_or(Plan::PLAIN, |index| Plan {
            proposer: Some(index),
            width: self.width.min(limit).min(offers[index].ids + 1),
        })
    }

    fn record(&mut self, _: &Outcome) {}
}

/// Plain steps before the first probe of a proposer that does not pay.
const FIRST_PROBE: usize = 8;
/// Plain steps between probes at most.
const LAST_PROBE: usize = 512;
/// A running mean forgets what is older than about this many observations.
const MEMORY: f32 = 32.0;
/// Drafting must promise this much more than plain decoding: costs and acceptance are known only so well.
const MARGIN: f64 = 1.03;
/// Observations that a prior counts for.
const PRIOR_WEIGHT: f32 = 2.0;

/// Picks the width with the most expected ids per second: the expected accept length, from a running mean of
/// acceptance per position, over the measured cost of drafting and verifying that many rows.
///
/// Where plain decoding wins, a losing proposer is tried again after a number of steps that doubles each
/// time it fails.
pub struct Adaptive {
    costs: Arc<StepCosts>,
    /// Per proposer and class.
    acceptance: Vec<Vec<Acceptance>>,
    probes: Vec<Probe>,
}

/// Running probability that position `i` is accepted when all before it were.
struct Acceptance {
    mean: Vec<f32>,
    seen: Vec<f32>,
}

struct Probe {
    interval: usize,
    plain_steps: usize,
}

impl Adaptive {
    /// `priors[p][c]`: probability that the first drafted id of proposer `p`, class `c` is accepted.
    pub fn new(costs: Arc<StepCosts>, block: usize, priors: &[Vec<f32>]) -> Self {
        let class = |&prior: &f32| Acceptance { mean: vec![prior; block], seen: vec![0.0; block] };
        Self {
            costs,
            acceptance: priors.iter().map(|classes| classes.iter().map(class).collect()).collect(),
            probes: priors.iter().map(|_| Probe { interval: FIRST_PROBE, plain_steps: 0 }).collect(),
        }
    }

    /// The best width of one proposer and its expected ids per second.
    fn best(&self, proposer: usize, offer: &Offer, limit: usize) -> Option<(usize, f64)> {
        let acceptance = &self.acceptance[proposer][offer.class];
        let (mut expected, mut reach) = (1.0, 1.0);
        let rates = (2..=limit.min(offer.ids + 1)).map(|width| {
            reach *= f64::from(acceptance.at(width - 2));
            expected += reach;
            (width, expected / self.costs.cycle(Some(proposer), width))
        });
        rates.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether a proposer that loses at present is worth a try: it is cheap to find out now and then.
    fn probe(&mut self, proposer: usize) -> bool {
        let probe = &mut self.probes[proposer];
        probe.plain_steps += 1;
        let due = probe.plain_steps >= probe.interval;
        if due {
            probe.plain_steps = 0;
            probe.interval = (probe.interval * 2).clamp(FIRST_PROBE, LAST_PROBE);
        }
        due
    }
}

impl WidthPolicy for Adaptive {
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan {
        let plain = MARGIN / self.costs.cycle(None, 1);
        let mut best = (Plan::PLAIN, plain);
        for (index, offer) in offers.iter().enumerate() {
            let Some((width, rate)) = self.best(index, offer, limit) else { continue };
            let plan = Plan { proposer: Some(index), width };
            if rate <= plain && self.probe(index) {
                return plan;
            }
            if rate > best.1 {
                best = (plan, rate);
            }
        }
        best.0
    }

    fn record(&mut self, outcome: &Outcome) {
        let Some(proposer) = outcome.proposer else { return };
        let gained = (outcome.accepted + 1) as f64 * self.costs.cycle(None, 1);
        if gained > self.costs.cycle(Some(proposer), outcome.width) {
            // It paid this once, so it may pay again: the next step is a probe.
            self.probes[proposer].interval = 1;
        }
        let acceptance = &mut self.acceptance[proposer][outcome.class];
        for position in 0..(outcome.accepted + 1).min(outcome.width - 1) {
            acceptance.see(position, position < outcome.accepted);
        }
    }
}

impl Acceptance {
    /// A position never tried is taken to be as good as the last one before it that was.
    fn at(&self, position: usize) -> f32 {
        let tried = (0..=position).rev().find(|&position| self.seen[position] > 0.0);
        self.mean[tried.unwrap_or(0)]
    }

    fn see(&mut self, position: usize, accepted: bool) {
        self.mean[position] = self.at(position);
        self.seen[position] = (self.seen[position] + 1.0).min(MEMORY);
        let step = 1.0 / (self.seen[position] + PRIOR_WEIGHT);
        self.mean[position] += step * (f32::from(u8::from(accepted)) - self.mean[position]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    const OFFER: [Offer; 1] = [Offer { ids: 15, class: 0 }];

    fn adaptive(verify: &[(usize, f64)], propose: f64) -> Adaptive {
        let propose = Some(Curve::new(vec![(2, propose), (16, propose)]));
        let costs = StepCosts { verify: Curve::new(verify.to_vec()), propose: vec![propose] };
        Adaptive::new(Arc::new(costs), 16, &[vec![0.5]])
    }

    /// Decodes `tokens` ids with a draft that gets `right` ids right, on a virtual clock; returns seconds and
    /// the widths chosen.
    fn run(policy: &mut Adaptive, tokens: usize, right: impl Fn(usize) -> usize) -> (f64, Vec<usize>) {
        let (mut done, mut clock, mut widths) = (0, 0.0, Vec::new());
        while done < tokens {
            let plan = policy.plan(&OFFER, 16.min(tokens - done).max(2));
            let accepted = if plan.proposer.is_some() { right(done).min(plan.width - 1) } else { 0 };
            clock += policy.costs.cycle(plan.proposer, plan.width);
            widths.push(plan.width);
            policy.record(&Outcome { proposer: plan.proposer, class: 0, width: plan.width, accepted });
            done += accepted + 1;
        }
        (clock, widths)
    }

    const STEEP: [(usize, f64); 5] = [(1, 1.0), (2, 1.2), (4, 1.5), (8, 2.6), (16, 4.6)];
    const FLAT: [(usize, f64); 2] = [(1, 1.0), (16, 1.1)];

    #[test]
    fn a_draft_that_is_always_wrong_is_given_up_and_probed_ever_less() {
        let mut policy = adaptive(&STEEP, 0.5);
        let (clock, widths) = run(&mut policy, 2000, |_| 0);
        let probes = widths.iter().filter(|&&width| width > 1).count();
        assert!(probes <= 14, "{probes} probes in 2000 steps");
        assert!(clock < 2000.0 * 1.02, "{clock} for 2000 plain steps");
    }

    #[test]
    fn a_draft_that_is_always_right_is_used_at_full_width() {
        for costs in [&STEEP[..], &FLAT] {
            let mut policy = adaptive(costs, 0.3);
            let (clock, widths) = run(&mut policy, 2000, |_| 15);
            assert!(widths[widths.len() / 2..].iter().filter(|&&width| width == 16).count() > 30);
            assert!(clock < 1000.0);
        }
    }

    #[test]
    fn width_follows_the_accept_length() {
        let mut policy = adaptive(&STEEP, 0.1);
        let (_, widths) = run(&mut policy, 1000, |_| 3);
        let tail = &widths[widths.len() - 20..widths.len() - 3];
        assert!(tail.iter().all(|&width| width == 4), "{tail:?}");
    }

    #[test]
    fn a_draft_that_turns_good_is_found_again() {
        let mut policy = adaptive(&STEEP, 0.1);
        let (_, widths) = run(&mut policy, 1500, |done| if done < 500 { 0 } else { 15 });
        assert!(widths.last().is_some() && widths.iter().rev().skip(3).take(10).all(|&width| width == 16));
    }

    #[test]
    fn fixed_takes_the_first_that_offers() {
        let mut policy = Fixed::new(8, vec![1, 0]);
        let nothing = Offer { ids: 0, class: 0 };
        assert_eq!(policy.plan(&[OFFER[0], nothing], 16), Plan { proposer: Some(0), width: 8 });
        assert_eq!(policy.plan(&[OFFER[0], Offer { ids: 2, class: 0 }], 16).width, 3);
        assert_eq!(policy.plan(&[nothing, nothing], 16), Plan::PLAIN);
        assert_eq!(policy.plan(&[OFFER[0], nothing], 5).width, 5);
    }
}
