//! The adaptive policy on a virtual clock: cost tables against drafts of every character.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use dflash_tensor::{BackendError, Tensor};

use super::*;
use crate::{Curve, ProposeRequest, Proposer, ProposerState, StepCosts};

/// Stands for a proposer whose ids nobody looks at.
pub(super) struct Named {
    pub confident: bool,
}

impl Proposer for Named {
    fn name(&self) -> &'static str {
        "named"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(())
    }

    fn confident(&self) -> bool {
        self.confident
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        OFFER
    }

    fn propose(&self, _: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        Ok(())
    }
}

pub(super) const BLOCK: usize = 16;
pub(super) const OFFER: Offer = Offer { ids: BLOCK - 1, class: 0 };

pub(super) type Rows = &'static [(usize, f64)];

/// Seconds of verification by rows, and of a proposal: in plain steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub verify: Rows,
    pub propose: Rows,
}

/// A CPU whose cores do not share a cache, one whose cores do (both measured with the default pair), a device at
/// which rows are nearly free, and one at which each costs a step.
const FAR: Table = Table {
    verify: &[(1, 1.0), (2, 1.21), (4, 1.66), (8, 2.71), (16, 4.86)],
    propose: &[(2, 0.40), (4, 0.47), (8, 0.71), (16, 1.44)],
};
pub(super) const NEAR: Table = Table {
    verify: &[(1, 1.0), (2, 1.04), (4, 1.2), (8, 1.88), (16, 3.47)],
    propose: &[(2, 0.36), (4, 0.40), (8, 0.55), (16, 0.95)],
};
const FLAT: Table = Table { verify: &[(1, 1.0), (16, 1.1)], propose: &[(2, 0.15), (16, 0.15)] };
const STEEP: Table = Table { verify: &[(1, 1.0), (16, 15.0)], propose: &[(2, 1.0), (16, 1.5)] };
const FREE: Table = Table { verify: NEAR.verify, propose: &[(2, 1e-6), (16, 1e-6)] };
const TABLES: [Table; 5] = [FAR, NEAR, FLAT, STEEP, FREE];

impl Table {
    pub fn costs(&self) -> StepCosts {
        let curve = |rows: Rows| Curve::new(rows.to_vec());
        StepCosts { verify: curve(self.verify), propose: vec![Some(curve(self.propose))] }
    }
}

/// What a draft says after `done` ids: how many ids are right, and how sure it is of the one at a position.
#[derive(Clone, Copy)]
pub(super) struct Draft {
    pub name: &'static str,
    pub right: fn(usize) -> usize,
    pub sure: fn(usize, usize) -> f32,
}

/// A number below 1 that looks random.
pub(super) fn lot(done: usize, salt: usize) -> f64 {
    let mixed = (done * 0x9e37_79b9 + salt * 0x85eb_ca6b) as u64;
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

/// Right with a probability per position.
pub(super) fn right_with(probability: f64, done: usize) -> usize {
    (0..BLOCK).take_while(|&position| lot(done, position) < probability).count()
}

pub(super) const DRAFTS: [Draft; 11] = [
    Draft { name: "sure and wrong", right: |_| 0, sure: |_, _| 0.99 },
    Draft { name: "wrong and knows it", right: |_| 0, sure: |_, _| 0.02 },
    Draft { name: "always right", right: |_| BLOCK, sure: |_, _| 0.99 },
    Draft { name: "right and not sure", right: |_| BLOCK, sure: |_, _| 0.1 },
    Draft { name: "right for one id", right: |_| 1, sure: |_, _| 0.9 },
    Draft {
        name: "flipping at every 100 ids",
        right: |done| if done / 100 % 2 == 0 { BLOCK } else { 0 },
        sure: |_, _| 0.9,
    },
    Draft {
        name: "flipping at every 20 ids",
        right: |done| if done / 20 % 2 == 0 { 5 } else { 0 },
        sure: |_, _| 0.9,
    },
    Draft { name: "decaying", right: |done| BLOCK.saturating_sub(done / 60), sure: |_, _| 0.95 },
    Draft { name: "half right", right: |done| right_with(0.5, done), sure: |_, _| 0.5 },
    Draft { name: "mostly right", right: |done| right_with(0.85, done), sure: |_, _| 0.85 },
    Draft {
        name: "right when it is sure",
        right: |done| if lot(done, 77) < 0.5 { BLOCK } else { 0 },
        sure: |done, _| if lot(done, 77) < 0.5 { 0.98 } else { 0.1 },
    },
];

/// A run on a virtual clock: ids and seconds at the end of every cycle, and its rows.
struct Run {
    ends: Vec<(usize, f64)>,
    rows: Vec<usize>,
    stats: PolicyStats,
}

impl Run {
    /// The most that any 256 ids took over plain decoding.
    fn worst(&self) -> f64 {
        let windows = (0..self.ends.len()).filter_map(|begin| {
            let (ids, seconds) = self.ends[begin];
            let end = self.ends[begin..].iter().find(|end| end.0 >= ids + 256)?;
            Some((end.1 - seconds) / (end.0 - ids) as f64)
        });
        windows.fold(0.0, f64::max)
    }

    /// Seconds per id.
    fn whole(&self) -> f64 {
        self.ends.last().map_or(0.0, |end| end.1 / end.0 as f64)
    }
}

fn policy(table: Table, confident: bool) -> Adaptive {
    let proposers: [Box<dyn Proposer>; 1] = [Box::new(Named { confident })];
    let experience = Arc::new(Mutex::new(Experience::new(&proposers, BLOCK)));
    Adaptive::new(Arc::new(table.costs()), experience, &proposers, BLOCK)
}

/// Tells the policy how a cycle ended that costs say all of; returns its seconds.
fn end(policy: &mut Adaptive, costs: &StepCosts, plan: Plan, rows: usize, accepted: &[usize]) -> f64 {
    let propose =
        |proposer: usize| costs.propose[proposer].as_ref().map_or(0.0, |curve| curve.at(plan.width));
    let (draft_s, step_s) = (plan.proposer.map_or(0.0, propose), costs.verify.at(rows));
    policy.record(&Outcome {
        proposer: plan.proposer,
        class: 0,
        planned: plan.width,
        verified: rows,
        judged: rows,
        accepted,
        ended: false,
        committed: accepted.len() + 1,
        draft_s,
        mates: 1,
        step_s,
        rows,
    });
    draft_s + step_s
}

/// Rows of a drafted block that the policy wants to verify.
fn cut(policy: &mut Adaptive, plan: &Plan, sure: &[f32]) -> usize {
    let mut nodes = Vec::new();
    policy.grow(plan, 0, sure, &mut nodes);
    nodes.len() + 1
}

/// Decodes `ids` ids on a machine whose steps take what `truth` says.
fn run(policy: Adaptive, truth: Table, draft: Draft, confident: bool, ids: usize) -> Run {
    run_from(policy, truth, draft, confident, 0, ids)
}

/// The same, from the place of an answer at which the draft behaves as it does after `first` ids.
fn run_from(
    mut policy: Adaptive,
    truth: Table,
    draft: Draft,
    confident: bool,
    first: usize,
    ids: usize,
) -> Run {
    let costs = truth.costs();
    let (mut done, mut clock) = (0, 0.0);
    let mut run = Run { ends: vec![(0, 0.0)], rows: Vec::new(), stats: PolicyStats::default() };
    while done < ids {
        let plan = policy.plan(&[OFFER], BLOCK.min(ids - done).max(2));
        let mut rows = 1;
        if plan.proposer.is_some() {
            let sure: Vec<f32> =
                (0..plan.width - 1).map(|position| (draft.sure)(first + done, position)).collect();
            rows = cut(&mut policy, &plan, if confident { &sure } else { &[] });
        }
        let accepted: Vec<usize> = (1..=(draft.right)(first + done).min(rows - 1)).collect();
        clock += end(&mut policy, &costs, plan, rows, &accepted);
        done += accepted.len() + 1;
        run.ends.push((done, clock));
        run.rows.push(rows);
    }
    run.stats = policy.finish();
    run
}

/// The policy knows the machine.
fn known(table: Table, draft: Draft, confident: bool, ids: usize) -> Run {
    run(policy(table, confident), table, draft, confident, ids)
}

pub(super) fn draft(name: &str) -> Draft {
    *DRAFTS.iter().find(|draft| draft.name == name).expect("a draft of that name")
}

#[test]
fn no_256_ids_take_3_percent_more_than_plain_decoding() {
    for table in TABLES {
        for draft in DRAFTS {
            for confident in [true, false] {
                let run = known(table, draft, confident, 3000);
                let worst = run.worst();
                assert!(worst <= 1.03, "{}, {confident}, {table:?}: {worst}", draft.name);
            }
        }
    }
}

#[test]
fn the_guarantee_holds_against_a_draft_that_knows_the_policy() {
    // Right exactly when nobody asks: every block that is verified is lost.
    for table in TABLES {
        let (mut policy, costs) = (policy(table, true), table.costs());
        let mut run = Run { ends: vec![(0, 0.0)], rows: Vec::new(), stats: PolicyStats::default() };
        let (mut clock, mut good) = (0.0, 0);
        for done in 0..3000 {
            let plan = policy.plan(&[OFFER], BLOCK);
            let rows = match plan.proposer {
                Some(_) => cut(&mut policy, &plan, &[0.99; BLOCK][..plan.width - 1]),
                None => 1,
            };
            // Now and then it lets a narrow block through, to be asked again.
            good = if rows > 1 { (good + 1) % 5 } else { good };
            let accepted: Vec<usize> = (1..if good == 4 { rows.min(3) } else { 1 }).collect();
            clock += end(&mut policy, &costs, plan, rows, &accepted);
            let ids = run.ends[done].0 + accepted.len() + 1;
            run.ends.push((ids, clock));
        }
        assert!(run.worst() <= 1.03, "{table:?}: {}", run.worst());
    }
}

#[test]
fn a_draft_that_is_always_wrong_is_probed_ever_less() {
    for (table, name) in [(FAR, "sure and wrong"), (NEAR, "sure and wrong"), (STEEP, "wrong and knows it")] {
        let run = known(table, draft(name), true, 2000);
        let (early, late) = run.rows.split_at(500);
        let wide = |rows: &[usize]| rows.iter().filter(|&&rows| rows > 1).count();
        assert!(run.stats.probes <= 12, "{name}: {} probes", run.stats.probes);
        assert!(wide(late) <= 12 && wide(early) <= 20, "{name}: {} and {}", wide(early), wide(late));
        assert!(run.whole() < 1.015, "{name}: {}", run.whole());
    }
}

#[test]
fn a_draft_that_is_always_right_is_used_at_the_best_width() {
    for (table, rows, most) in [(FAR, 8, 0.45), (NEAR, 12, 0.3), (FLAT, 16, 0.1)] {
        let run = known(table, draft("always right"), true, 2000);
        let tail = &run.rows[run.rows.len() / 2..];
        let full = tail.iter().filter(|&&width| width >= rows).count();
        assert!(full * 10 >= tail.len() * 9, "{full} of {}", tail.len());
        assert!(run.whole() < most, "{}", run.whole());
        assert!(run.stats.gained_s > 0.0);
    }
}

#[test]
fn rows_follow_what_is_accepted() {
    let three = Draft {
        name: "right for three",
        right: |_| 3,
        sure: |_, position| if position < 3 { 0.9 } else { 0.3 },
    };
    for confident in [true, false] {
        let run = known(FAR, three, confident, 1500);
        let tail = &run.rows[run.rows.len() / 2..];
        let four = tail.iter().filter(|&&rows| rows == 4).count();
        assert!(four * 10 >= tail.len() * 9, "{confident}: {four} of {}", tail.len());
    }
}

#[test]
fn a_drafts_own_probabilities_cut_its_blocks() {
    let sure = draft("right when it is sure");
    let (with, without) = (known(NEAR, sure, true, 3000), known(NEAR, sure, false, 3000));
    assert!(with.whole() < 0.9 * without.whole(), "{} with, {} without", with.whole(), without.whole());
    assert!(with.stats.dropped_blocks > 0);
}

#[test]
fn a_draft_that_turns_good_is_found_again() {
    let turning =
        Draft { name: "turning", right: |done| if done < 700 { 0 } else { BLOCK }, sure: |_, _| 0.9 };
    for confident in [true, false] {
        let run = known(FAR, turning, confident, 3000);
        let tail = &run.rows[run.rows.len() - 40..run.rows.len() - 2];
        assert!(tail.iter().filter(|&&rows| rows >= 8).count() > 30, "{tail:?}");
    }
}

#[test]
fn a_table_that_is_wrong_is_found_out() {
    // It says that rows are nearly free, and they are not; the draft is right for one id.
    for (truth, name) in [(STEEP, "right for one id"), (FAR, "right for one id"), (STEEP, "half right")] {
        let run = run(policy(FLAT, true), truth, draft(name), true, 4000);
        let half = run.ends[run.ends.len() / 2];
        let end = run.ends[run.ends.len() - 1];
        let late = (end.1 - half.1) / (end.0 - half.0) as f64;
        assert!(late <= 1.03, "{name}: {late} in the second half");
    }
}

#[test]
fn experience_is_the_prior_of_the_next_sequence() {
    let proposers: [Box<dyn Proposer>; 1] = [Box::new(Named { confident: true })];
    let experience = Arc::new(Mutex::new(Experience::new(&proposers, BLOCK)));
    let new = || Adaptive::new(Arc::new(FAR.costs()), Arc::clone(&experience), &proposers, BLOCK);
    let right = draft("right and not sure");
    let first = run(new(), FAR, right, true, 400);
    let second = run(new(), FAR, right, true, 400);
    assert!(second.whole() < first.whole(), "{} then {}", first.whole(), second.whole());
    let known = experience.lock().unwrap().clone();
    assert!(known.fits(&Experience::new(&proposers, BLOCK)));
    let text = serde_json::to_string(&known).unwrap();
    assert_eq!(serde_json::from_str::<Experience>(&text).unwrap(), known);
    assert!(!known.fits(&Experience::new(&proposers, BLOCK + 1)));
}

#[test]
fn every_plain_step_has_a_reason() {
    for table in TABLES {
        for draft in DRAFTS {
            let run = known(table, draft, true, 1000);
            let stats = run.stats;
            let reasons = stats.plain_without_offer
                + stats.plain_unpromising
                + stats.plain_at_loss_limit
                + stats.plain_to_measure
                + stats.dropped_blocks;
            assert_eq!(reasons, run.rows.iter().filter(|&&rows| rows == 1).count(), "{}", draft.name);
            let (ids, seconds) = run.ends[run.ends.len() - 1];
            assert!((stats.gained_s - (ids as f64 - seconds)).abs() < 1e-6, "{}", draft.name);
        }
    }
}

#[test]
fn a_draft_of_known_acceptance_gives_nine_tenths_of_its_ceiling_in_short_answers() {
    const ORACLES: [(f64, Draft); 4] = [
        (0.6, Draft { name: "0.6", right: |done| right_with(0.6, done), sure: |_, _| 0.6 }),
        (0.8, Draft { name: "0.8", right: |done| right_with(0.8, done), sure: |_, _| 0.8 }),
        (0.9, Draft { name: "0.9", right: |done| right_with(0.9, done), sure: |_, _| 0.9 }),
        (1.0, Draft { name: "1.0", right: |_| BLOCK, sure: |_, _| 1.0 }),
    ];
    for table in TABLES {
        let costs = table.costs();
        for (rate, draft) in ORACLES {
            let block = |rows: usize| {
                let ids: f64 = (0..rows as i32).map(|position| rate.powi(position)).sum();
                ids / (costs.verify.at(rows) + costs.propose[0].as_ref().expect("a cost").at(rows))
            };
            let ceiling = (2..=BLOCK).map(block).fold(1.0, f64::max);
            let answer =
                |number: usize| run_from(policy(table, true), table, draft, true, 1000 * number, 256).whole();
            let speedup = 24.0 / (0..24).map(answer).sum::<f64>();
            assert!(speedup > 0.9 * ceiling, "{} of {ceiling}: {speedup}, {table:?}", draft.name);
        }
    }
}
