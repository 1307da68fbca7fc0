use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acceptance::{Calibration, Positions};
use super::ledger::Ledger;
use super::live::LiveCosts;
use super::probe::Probe;
use super::promise::{Cut, Promise, WIDTHS, chain};
use super::{Company, Experience, Outcome, Plan, PolicyStats, WidthPolicy};
use crate::{Node, Offer, Proposer, StepCosts, best_first};

/// Ids by which drafting must promise more than plain decoding: costs and acceptance are known only so well.
const MARGIN: f64 = 0.02;
/// Cycles without a plain step after which one is made, so that it is known what plain decoding would cost.
const MEASURE_PLAIN: usize = 64;
/// Alternatives of every position that a tree is made of; eight gain little more (docs/performance.md).
const RANKS: usize = 4;
/// Cycles in a row without a promise after which a proposer is given up where a step is shared, there being less to win
/// and the looking on costing as much as ever: of one that earlier requests have shown, and of any.
const KNOWN_GIVEN_UP: usize = 8;
const GIVEN_UP: usize = 24;
/// A cycle that took longer than so many times its estimate was disturbed.
const DISTURBED: f64 = 1.5;
/// Cycles that the pace remembers.
const PACE_MEMORY: f64 = 32.0;

/// Picks proposer and rows with the most expected ids per second, and never loses more than a bounded number of
/// plain steps.
///
/// Before drafting it goes by what blocks have promised of late; once a block is drafted, by the draft's own
/// probability of each id, calibrated by what was accepted. A choice is worth its expected ids minus what could be
/// committed in its time anyway, at the present pace: maximising that maximises ids per second in the long run
/// (the reward of a renewal process). A proposer that does not pay is tried again after a number of steps that
/// doubles each time it fails. A ledger bounds what all of this can lose.
pub struct Adaptive {
    costs: LiveCosts,
    tracks: Vec<Track>,
    pace: Pace,
    ledger: Ledger,
    shared: Arc<Mutex<Experience>>,
    /// What this sequence adds to it.
    seen: Experience,
    stats: PolicyStats,
    cycles_since_plain: usize,
    /// Rows of a tree at most; `None` verifies chains.
    trees: Option<usize>,
    /// Rows that this cycle may verify.
    limit: usize,
    /// The drafted ids in work that are verified, where their proposer tells probabilities.
    block: Vec<Judged>,
    /// Whether every proposer is tried.
    exploring: bool,
    /// Whether nothing has been planned yet.
    fresh: bool,
    /// Whether this is a probe.
    probing: bool,
    /// Whether the proposer of this cycle has told probabilities.
    confided: bool,
}

/// A drafted id that waits for the target's word.
struct Judged {
    parent: Option<usize>,
    position: usize,
    rank: usize,
    confidence: f32,
}

/// What is known of one proposer.
struct Track {
    /// Whether it tells probabilities.
    confident: bool,
    /// By class.
    positions: Vec<Positions>,
    /// By its own probabilities.
    calibration: Calibration,
    /// Widths at which it may draft, with what they promised, by the size of the company.
    promises: Vec<Promises>,
    /// By class.
    probes: Vec<Probe>,
    /// Whether earlier requests have shown what it is like.
    known: bool,
    /// Cycles since it last promised to pay, or did.
    idle: usize,
}

/// By width.
type Promises = Vec<(usize, Option<Promise>)>;

/// Companies of 1, 2, to 4, to 8 sequences and so on have promises of their own: what pays in one does not in another.
const COMPANIES: usize = 6;

/// What a proposer could do now.
struct Bid {
    plan: Plan,
    worth: f64,
}

/// Why a step is plain; the strongest reason is the last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    NoOffer,
    Unpromising,
    LossLimit,
}

/// Ids of late and the plain steps that could have been made in their time.
struct Pace {
    ids: f64,
    steps: f64,
}

impl Adaptive {
    /// For one sequence. `experience` is shared by all sequences of the pair: it gives the priors, and takes what
    /// this sequence shows when it ends.
    ///
    /// # Panics
    /// When costs or experience are not those of `proposers`, or that of narrower blocks than `block` rows.
    pub fn new(
        costs: Arc<StepCosts>,
        experience: Arc<Mutex<Experience>>,
        proposers: &[Box<dyn Proposer>],
        block: usize,
    ) -> Self {
        let costs = LiveCosts::new(costs);
        let known = lock(&experience).clone();
        let tracks = proposers.iter().enumerate();
        let tracks =
            tracks.map(|(index, proposer)| Track::new(&known, index, proposer.as_ref(), block)).collect();
        Self {
            tracks,
            pace: Pace { ids: PACE_MEMORY / 4.0, steps: PACE_MEMORY / 4.0 },
            costs,
            ledger: Ledger::new(),
            seen: known.emptied(),
            shared: experience,
            stats: PolicyStats::default(),
            cycles_since_plain: 0,
            trees: None,
            limit: block,
            block: Vec::with_capacity(block),
            probing: false,
            confided: false,
            exploring: false,
            fresh: true,
        }
    }

    /// Verifies trees of up to `rows` rows instead of chains, where a proposer tells probabilities.
    pub fn with_trees(mut self, rows: usize) -> Self {
        self.trees = Some(rows);
        self
    }

    /// Tries every proposer, also one of which nothing is to be expected in company.
    pub fn exploring(mut self) -> Self {
        self.exploring = true;
        self
    }

    /// Ids per second of late, plain steps included.
    fn pace(&self) -> f64 {
        (self.pace.ids / self.pace.steps).max(1.0) / self.costs.plain()
    }

    /// Which promises count in the present company.
    fn company(&self) -> usize {
        let sequences = self.costs.company().sequences.next_power_of_two();
        (sequences.trailing_zeros() as usize).min(COMPANIES - 1)
    }

    /// Whether a cycle that drafts and verifies so many rows may begin: all of it may be lost but the one id that
    /// a plain step gives too. The first drafted id is right with the probability `sure`.
    fn affords(&self, proposer: usize, drafted: usize, rows: usize, sure: f64) -> bool {
        let seconds = self.costs.propose(proposer, drafted) + self.costs.verify(rows);
        seconds / self.costs.plain() - 1.0 <= self.ledger.stake(sure)
    }

    /// Rows of a block of `drafted` that may be verified, `most` at most.
    fn affordable(&self, proposer: usize, drafted: usize, most: usize, sure: f64) -> usize {
        (1..=most).rev().find(|&rows| self.affords(proposer, drafted, rows, sure)).unwrap_or(1)
    }

    /// The best that a proposer can do with at most `most` rows; `None` where it may not lose any more.
    fn bid(&self, proposer: usize, class: usize, most: usize, pace: f64) -> Option<Bid> {
        let track = &self.tracks[proposer];
        let reaches = || chain(track.positions[class].values());
        let sure = track.positions[class].values().next().unwrap_or(0.0);
        if !track.confident {
            let most = (2..=most).rev().find(|&rows| self.affords(proposer, rows, rows, sure))?;
            let cut = Cut::best(reaches(), most, &self.costs, pace);
            let width = cut.rows.max(2);
            let worth = cut.worth(pace) - pace * self.costs.propose(proposer, width);
            return Some(Bid { plan: Plan::chain(proposer, width), worth });
        }
        let (ranks, plain) = (if self.trees.is_some() { RANKS } else { 1 }, self.costs.plain());
        let widths = track.promises[self.company()].iter().filter(|(width, _)| *width <= most);
        let bids =
            widths.filter(|&&(width, _)| self.affords(proposer, width, 2, sure)).map(|&(width, promise)| {
                let guess = || Promise::new(Cut::best(reaches(), width, &self.costs, pace), plain);
                let draft = self.costs.propose(proposer, width);
                let worth = promise.unwrap_or_else(guess).worth(draft, plain, pace);
                Bid { plan: Plan { proposer: Some(proposer), width, ranks }, worth }
            });
        bids.max_by(|a, b| a.worth.total_cmp(&b.worth))
    }

    /// Whether what earlier requests have shown of a proposer promises anything in the present company.
    fn may_pay(&self, proposer: usize) -> bool {
        let pace = self.pace();
        let plain = 1.0 - pace * self.costs.plain() + MARGIN;
        self.bid(proposer, 0, self.limit, pace).is_some_and(|bid| bid.worth > plain)
    }

    /// Remembers what a block promises at every width; beyond what was drafted by the means of its positions.
    fn promise(&mut self, plan: &Plan, proposer: usize, class: usize, confidence: &[f32]) {
        let (pace, drafted, plain) = (self.pace(), plan.width - 1, self.costs.plain());
        let company = self.company();
        // A block is worth no more than what of it may be verified.
        let sure = self.tracks[proposer].calibration.at(0, confidence[0]);
        let rows = |width: usize| {
            let most = if plan.ranks > 1 { self.limit } else { width };
            self.affordable(proposer, width, most, sure)
        };
        let widths = self.tracks[proposer].promises[company].iter();
        let most: Vec<usize> = widths.map(|(width, _)| rows(*width)).collect();
        let Track { positions, calibration, promises, .. } = &mut self.tracks[proposer];
        let positions = &mut positions[class];
        for position in 0..drafted {
            positions.see(position, calibration.at(position, confidence[position * plan.ranks]));
        }
        let beyond: Vec<f64> = positions.values().collect();
        let probability = |position: usize, rank: usize| match (position < drafted, rank) {
            (true, _) => calibration.at(position, confidence[position * plan.ranks + rank]),
            (false, 0) => beyond[position],
            (false, _) => 0.0,
        };
        for ((width, promise), most) in promises[company].iter_mut().zip(most) {
            let tree = best_first(*width - 1, plan.ranks, most - 1, probability);
            let cut = Cut::best(tree.iter().map(|node| node.reach), most, &self.costs, pace);
            promise.get_or_insert_with(|| Promise::new(cut, plain)).see(cut, plain);
        }
    }

    /// The best-first tree of what was drafted, cut where it is worth most. A chain is the tree without
    /// alternatives.
    fn best_tree(&mut self, plan: &Plan, proposer: usize, confidence: &[f32], nodes: &mut Vec<Node>) {
        let most = if plan.ranks > 1 { self.limit } else { plan.width.min(self.limit) };
        let calibration = &self.tracks[proposer].calibration;
        let affordable = self.affordable(proposer, plan.width, most, calibration.at(0, confidence[0]));
        // A probe believes the draft, or what was learned of it would never be tried again.
        let belief = if self.probing { Calibration::trusting } else { Calibration::at };
        let sure = |position: usize, rank: usize| confidence[position * plan.ranks + rank];
        let probability = |position, rank| belief(calibration, position, sure(position, rank));
        nodes.extend(best_first(plan.width - 1, plan.ranks, affordable - 1, probability));
        let best = Cut::best(nodes.iter().map(|node| node.reach), affordable, &self.costs, self.pace()).rows;
        // And it looks at one id at least: the draft may be better than it thinks.
        let rows = if self.probing { best.max(2.min(affordable)) } else { best };
        nodes.truncate(rows - 1);
        self.block.extend(nodes.iter().map(|&Node { parent, position, rank, .. }| {
            let confidence = sure(position, rank);
            Judged { parent, position, rank, confidence }
        }));
    }

    /// What the cycle took by the estimates, in seconds of this sequence.
    fn estimate(&self, outcome: &Outcome<'_>) -> f64 {
        let Outcome { planned, mates, verified, rows, .. } = *outcome;
        let draft =
            outcome.proposer.map_or(0.0, |proposer| self.costs.propose_among(proposer, planned, mates));
        draft + self.costs.share(verified, rows)
    }

    /// What it took, in the same seconds: all that the step took beyond a plain one is due to those that drafted.
    fn took(&self, outcome: &Outcome<'_>) -> f64 {
        let Outcome { verified, rows, step_s, draft_s, .. } = *outcome;
        draft_s + self.costs.took(verified, rows, step_s)
    }

    /// Learns from every drafted id that was judged.
    fn judge(&mut self, proposer: usize, outcome: &Outcome<'_>) {
        let (accepted, class) = (outcome.accepted, outcome.class);
        // What was not verified for the sake of other sequences says nothing.
        self.block.truncate(outcome.judged - 1);
        let open = usize::from(!outcome.ended);
        if !self.confided {
            for position in 0..(accepted.len() + open).min(outcome.judged - 1) {
                let right = position < accepted.len();
                self.tracks[proposer].positions[class].see(position, f64::from(u8::from(right)));
                self.seen.see_position(proposer, class, position, right);
            }
        }
        for (index, id) in self.block.iter().enumerate() {
            let on_path = |node: usize| accepted.contains(&(node + 1));
            let right = on_path(index);
            let last = id.parent.map_or(0, |parent| parent + 1) == accepted.last().copied().unwrap_or(0);
            if id.parent.is_none_or(on_path) && (right || !(outcome.ended && last)) {
                self.tracks[proposer].calibration.see(id.position, id.confidence, right);
                self.seen.see_confidence(proposer, id.confidence, right);
                if id.rank == 0 {
                    self.seen.see_position(proposer, class, id.position, right);
                }
            }
        }
        if outcome.verified == 1 && outcome.judged > 1 {
            let (seconds, company) = (self.costs.plain(), self.company());
            let plain = Cut { rows: 1, ids: 1.0, seconds };
            let promises = self.tracks[proposer].promises[company].iter_mut();
            promises.for_each(|(_, promise)| {
                promise.get_or_insert_with(|| Promise::new(plain, seconds)).see(plain, seconds);
            });
        }
    }
}

impl WidthPolicy for Adaptive {
    fn meet(&mut self, company: Company) {
        self.costs.meet(company);
    }

    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan {
        self.block.clear();
        (self.probing, self.confided, self.fresh) = (false, false, false);
        self.limit = self.trees.map_or(limit, |rows| rows.min(limit));
        let pace = self.pace();
        let plain = 1.0 - pace * self.costs.plain() + MARGIN;
        let (mut best, mut reason) = (Bid { plan: Plan::PLAIN, worth: plain }, Reason::NoOffer);
        if self.cycles_since_plain >= MEASURE_PLAIN || self.costs.drifted() {
            self.stats.plain_to_measure += 1;
            return Plan::PLAIN;
        }
        for (proposer, offer) in offers.iter().enumerate() {
            let most = limit.min(offer.ids + 1);
            if most < 2 {
                continue;
            }
            let Some(bid) = self.bid(proposer, offer.class, most, pace) else {
                reason = Reason::LossLimit;
                self.tracks[proposer].idle += 1;
                continue;
            };
            let track = &mut self.tracks[proposer];
            track.idle = if bid.worth > plain { 0 } else { track.idle + 1 };
            if bid.worth <= plain && self.tracks[proposer].probes[offer.class].due() {
                self.stats.probes += 1;
                self.probing = true;
                return bid.plan;
            }
            if bid.worth > best.worth {
                best = bid;
            } else {
                reason = reason.max(Reason::Unpromising);
            }
        }
        if best.plan == Plan::PLAIN {
            *match reason {
                Reason::NoOffer => &mut self.stats.plain_without_offer,
                Reason::Unpromising => &mut self.stats.plain_unpromising,
                Reason::LossLimit => &mut self.stats.plain_at_loss_limit,
            } += 1;
        }
        best.plan
    }

    fn grow(&mut self, plan: &Plan, class: usize, confidence: &[f32], nodes: &mut Vec<Node>) {
        let proposer = plan.proposer.expect("a drafted block");
        self.confided = confidence.len() == (plan.width - 1) * plan.ranks;
        match self.confided {
            true => {
                self.promise(plan, proposer, class, confidence);
                self.best_tree(plan, proposer, confidence, nodes);
            }
            false => {
                let reaches = chain(self.tracks[proposer].positions[class].values());
                let nodes_of = Node::chain(plan.width - 1, 1.0).zip(reaches);
                nodes.extend(nodes_of.map(|(node, reach)| Node { reach, ..node }));
            }
        }
        if let (true, Some(first)) = (self.probing, nodes.first_mut()) {
            // Whatever else the step is worth: it was drafted to be looked at.
            first.reach = 1.0;
        }
    }

    fn record(&mut self, outcome: &Outcome<'_>) {
        self.costs.saw(outcome);
        let (plain, seconds, ids) = (self.costs.plain(), self.estimate(outcome), outcome.committed as f64);
        let took = self.took(outcome);
        self.stats.gained_s += ids * plain - took;
        self.pace.add(ids, seconds / plain);
        let Some(proposer) = outcome.proposer else {
            self.ledger.add(outcome.committed, ids);
            self.cycles_since_plain = 0;
            return;
        };
        // What it took, not what it should have: a step that costs more than is known is lost all the same. But not
        // every moment of disturbance is the draft's doing.
        let took = took.clamp(seconds / DISTURBED, seconds * DISTURBED);
        self.ledger.add(outcome.committed, took / plain);
        self.cycles_since_plain += 1;
        self.stats.dropped_blocks += usize::from(outcome.verified == 1);
        let track = &mut self.tracks[proposer];
        track.probes[outcome.class].record(ids * plain > seconds);
        track.idle = if ids * plain > seconds { 0 } else { track.idle };
        self.judge(proposer, outcome);
    }

    fn watches(&self, proposer: usize) -> bool {
        if self.costs.company().sequences == 1 || !self.costs.is_costly(proposer) {
            return true;
        }
        let track = &self.tracks[proposer];
        let most_idle = if track.known { KNOWN_GIVEN_UP } else { GIVEN_UP };
        let hopeless = self.fresh && track.known && !self.exploring && !self.may_pay(proposer);
        track.idle < most_idle && !hopeless
    }

    fn finish(&mut self) -> PolicyStats {
        lock(&self.shared).learn(&self.seen);
        self.seen = self.seen.emptied();
        self.stats
    }
}

impl Track {
    fn new(known: &Experience, index: usize, proposer: &dyn Proposer, block: usize) -> Self {
        let positions = (0..proposer.classes())
            .map(|class| known.positions(index, class, f64::from(proposer.prior(class))));
        let widths = WIDTHS.into_iter().filter(|&width| width < block).chain([block.max(2)]);
        let promises: Promises = widths.map(|width| (width, None)).collect();
        Self {
            confident: proposer.confident(),
            positions: positions.collect(),
            calibration: Calibration::new(known.bins(index), block),
            promises: vec![promises; COMPANIES],
            probes: (0..proposer.classes()).map(|class| Probe::new(known.is_rich(index, class))).collect(),
            known: known.is_rich(index, 0),
            idle: 0,
        }
    }
}

impl Pace {
    fn add(&mut self, ids: f64, steps: f64) {
        const KEEP: f64 = 1.0 - 1.0 / PACE_MEMORY;
        self.ids = KEEP * self.ids + ids;
        self.steps = KEEP * self.steps + steps;
    }
}

/// A panic elsewhere leaves counts that are as good as before.
fn lock(experience: &Mutex<Experience>) -> MutexGuard<'_, Experience> {
    experience.lock().unwrap_or_else(PoisonError::into_inner)
}
