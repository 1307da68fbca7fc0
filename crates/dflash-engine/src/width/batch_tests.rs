//! Several sequences on a virtual clock: policies and the allotment of rows, as a step goes.

use std::sync::{Arc, Mutex};

use super::tests::{BLOCK, DRAFTS, Draft, Named, OFFER, Table, draft, lot, right_with};
use super::*;
use crate::Proposer;

/// One sequence.
struct Answer {
    policy: Adaptive,
    draft: Draft,
    /// Ids so far, behind the place at which the draft behaves as after so many.
    first: usize,
    done: usize,
}

/// Sequences on a machine whose steps take what `truth` says.
struct Clock {
    truth: Table,
    answers: Vec<Answer>,
    allotment: Allotment,
    seconds: f64,
}

impl Clock {
    /// As many sequences as drafts.
    fn new(known: Table, truth: Table, drafts: &[Draft]) -> Self {
        let proposers: [Box<dyn Proposer>; 1] = [Box::new(Named { confident: true })];
        let experience = Arc::new(Mutex::new(Experience::new(&proposers, BLOCK)));
        let costs = Arc::new(known.costs());
        let policy = || Adaptive::new(Arc::clone(&costs), Arc::clone(&experience), &proposers, BLOCK);
        let answers = drafts.iter().enumerate();
        let answers =
            answers.map(|(number, &draft)| Answer { policy: policy(), draft, first: 1009 * number, done: 0 });
        Self {
            truth,
            answers: answers.collect(),
            allotment: Allotment::new(Arc::clone(&costs)),
            seconds: 0.0,
        }
    }

    /// One step, with `prompts` rows of prompts in it; returns its rows.
    fn step(&mut self, prompts: usize) -> usize {
        let Self { truth, answers, allotment, seconds } = self;
        let (costs, sequences) = (truth.costs(), answers.len());
        let company =
            Company { sequences, rows: sequences + prompts, drafting: allotment.drafting(sequences) };
        let mut blocks = Vec::new();
        for answer in answers.iter_mut() {
            answer.policy.meet(company);
            blocks.push((answer.policy.plan(&[OFFER], BLOCK), Vec::new(), 0, 0.0));
        }
        allotment.meet(company);
        let mut plans: Vec<Plan> = blocks.iter().map(|block| block.0).collect();
        allotment.join(&mut plans);
        blocks.iter_mut().zip(&plans).for_each(|(block, plan)| block.0 = *plan);
        for (index, (answer, (plan, nodes, mates, draft_s))) in
            answers.iter_mut().zip(&mut blocks).enumerate()
        {
            if plan.proposer.is_none() {
                continue;
            }
            // Those that want the same share a pass.
            *mates = plans.iter().filter(|other| *other == plan).count();
            let curve = costs.propose[0].as_ref().expect("a cost");
            *draft_s = curve.at(*mates * plan.width) / *mates as f64;
            *seconds += *draft_s;
            let at = answer.first + answer.done;
            let sure: Vec<f32> =
                (0..plan.width - 1).map(|position| (answer.draft.sure)(at, position)).collect();
            answer.policy.grow(plan, 0, &sure, nodes);
            allotment.offer(index, nodes);
        }
        allotment.allot();
        let rows = |index: usize| 1 + allotment.kept(index);
        let verified: Vec<usize> = (0..sequences).map(rows).collect();
        let all = prompts + verified.iter().sum::<usize>();
        let step_s = costs.verify.at(all);
        *seconds += step_s;
        let mut ids = 0;
        for ((answer, block), &verified) in answers.iter_mut().zip(&blocks).zip(&verified) {
            let right = (answer.draft.right)(answer.first + answer.done);
            let accepted: Vec<usize> = (1..=right.min(verified - 1)).collect();
            answer.policy.record(&Outcome {
                proposer: block.0.proposer,
                class: 0,
                planned: block.0.width,
                verified,
                judged: verified,
                accepted: &accepted,
                ended: false,
                committed: accepted.len() + 1,
                draft_s: block.3,
                mates: block.2.max(1),
                step_s,
                rows: all,
            });
            answer.done += accepted.len() + 1;
            ids += accepted.len() + 1;
        }
        let drafted = blocks.iter().map(|block| block.2).max().unwrap_or(0);
        allotment.record(&Shown { rows: all, seconds: step_s, ids, drafted });
        all
    }

    fn ids(&self) -> usize {
        self.answers.iter().map(|answer| answer.done).sum()
    }

    /// Ids a second over those of plain decoding, until so many ids of a sequence have come.
    fn gain(&mut self, ids: usize) -> f64 {
        let sequences = self.answers.len();
        while self.ids() < sequences * ids {
            self.step(0);
        }
        let plain = sequences as f64 / self.truth.costs().verify.at(sequences);
        self.ids() as f64 / self.seconds / plain
    }
}

/// The tables of a step of one sequence, measured up to 64 rows: on a processor costs go on as they do to 16 rows.
const WIDE: [Table; 5] = [
    Table {
        verify: &[(1, 1.0), (2, 1.21), (4, 1.66), (8, 2.71), (16, 4.86), (32, 9.3), (64, 18.2)],
        propose: &[(2, 0.40), (4, 0.47), (8, 0.71), (16, 1.44), (32, 2.7), (64, 5.2)],
    },
    Table {
        verify: &[(1, 1.0), (2, 1.04), (4, 1.2), (8, 1.88), (16, 3.47), (32, 6.7), (64, 13.2)],
        propose: &[(2, 0.36), (4, 0.40), (8, 0.55), (16, 0.95), (32, 1.8), (64, 3.5)],
    },
    Table { verify: &[(1, 1.0), (64, 1.2)], propose: &[(2, 0.15), (64, 0.2)] },
    Table { verify: &[(1, 1.0), (64, 64.0)], propose: &[(2, 1.0), (64, 6.0)] },
    // Free up to eight rows, then each costs.
    Table { verify: &[(1, 1.0), (8, 1.02), (64, 8.0)], propose: &[(2, 0.2), (64, 1.0)] },
];

const BATCHES: [usize; 4] = [1, 2, 4, 8];

fn of_rate(rate: f64) -> Draft {
    match (rate * 10.0).round() as usize {
        0 => draft("wrong and knows it"),
        5 => draft("half right"),
        8 => Draft { name: "0.8", right: |done| right_with(0.8, done), sure: |_, _| 0.8 },
        _ => draft("always right"),
    }
}

#[test]
fn drafting_is_never_slower_in_a_batch() {
    for table in WIDE {
        for sequences in BATCHES {
            for character in DRAFTS {
                let gain = Clock::new(table, table, &vec![character; sequences]).gain(500);
                assert!(gain > 0.97, "{} times {sequences}: {gain}, {table:?}", character.name);
            }
        }
    }
}

#[test]
fn nor_among_others_of_all_kinds() {
    for table in WIDE {
        for turn in 0..DRAFTS.len() {
            let mixed: Vec<Draft> = (0..8).map(|index| DRAFTS[(turn + 3 * index) % DRAFTS.len()]).collect();
            let gain = Clock::new(table, table, &mixed).gain(600);
            assert!(gain > 0.97, "from {turn}: {gain}, {table:?}");
        }
    }
}

#[test]
fn where_rows_are_nearly_free_a_batch_gains_as_one_sequence_does() {
    for sequences in BATCHES {
        for (rate, least) in [(0.5, 1.5), (0.8, 2.9), (1.0, 8.0)] {
            let gain = Clock::new(WIDE[2], WIDE[2], &vec![of_rate(rate); sequences]).gain(600);
            assert!(gain > least, "{rate} times {sequences}: {gain}");
        }
    }
}

#[test]
fn drafting_shrinks_as_the_batch_grows() {
    let tail = |sequences: usize| {
        let mut clock = Clock::new(WIDE[4], WIDE[4], &vec![of_rate(0.8); sequences]);
        clock.gain(300);
        let rows: usize = (0..50).map(|_| clock.step(0)).sum();
        rows as f64 / 50.0 / sequences as f64
    };
    let rows = BATCHES.map(tail);
    assert!(rows[0] > 4.0 && rows.windows(2).all(|pair| pair[1] < pair[0]), "{rows:?}");
    assert!(rows[3] < 1.3, "{rows:?}");
}

#[test]
fn rows_go_to_those_whose_drafts_are_right() {
    let drafts = [of_rate(1.0), of_rate(0.0), of_rate(1.0), of_rate(0.0)];
    let even = Table { verify: &[(1, 1.0), (64, 3.0)], propose: &[(2, 0.2), (64, 0.6)] };
    let mut clock = Clock::new(even, even, &drafts);
    let gain = clock.gain(600);
    let done: Vec<usize> = clock.answers.iter().map(|answer| answer.done).collect();
    assert!(gain > 1.15 && done[0] > 2 * done[1] && done[2] > 2 * done[3], "{gain}: {done:?}");
}

#[test]
fn a_batch_that_comes_and_goes_and_prompts_beside_it_cost_no_more() {
    for table in WIDE {
        for character in DRAFTS {
            let mut clock = Clock::new(table, table, &[character; 8]);
            let (mut plain, mut ids, mut waiting) = (0.0, 0, Vec::new());
            for step in 0..1500 {
                // From one to eight sequences and back, and now and then a prompt.
                let sequences = 1 + (8.0 * lot(step / 40, 3)) as usize;
                while clock.answers.len() > sequences {
                    waiting.extend(clock.answers.pop());
                }
                while clock.answers.len() < sequences {
                    clock.answers.extend(waiting.pop());
                }
                let (prompts, before) = (if step % 10 < 3 { 16 } else { 0 }, clock.ids());
                clock.step(prompts);
                let came = clock.ids() - before;
                ids += came;
                let rows = sequences + prompts;
                plain += came as f64 * table.costs().verify.at(rows) / sequences as f64;
            }
            let gain = plain / clock.seconds;
            assert!(gain > 0.97, "{}: {gain} over {ids} ids, {table:?}", character.name);
        }
    }
}

#[test]
fn a_table_that_is_wrong_is_found_out_together() {
    // It says that rows are nearly free, and they are not.
    for truth in [WIDE[0], WIDE[3]] {
        for sequences in BATCHES {
            let mut clock = Clock::new(WIDE[2], truth, &vec![draft("right for one id"); sequences]);
            clock.gain(1200);
            let (ids, seconds) = (clock.ids(), clock.seconds);
            clock.gain(3000);
            let plain = sequences as f64 / truth.costs().verify.at(sequences);
            let gain = (clock.ids() - ids) as f64 / (clock.seconds - seconds) / plain;
            assert!(gain > 0.96, "{sequences}: {gain}, {truth:?}");
        }
    }
}

#[test]
fn a_draft_known_to_promise_nothing_in_company_is_not_shown_anything_there_but_for_one_that_explores() {
    let proposers: [Box<dyn Proposer>; 1] = [Box::new(Named { confident: true })];
    let watches = |accepted: usize, sequences: usize, explores: bool| {
        let mut known = Experience::new(&proposers, BLOCK);
        for block in 0..64 {
            for position in 0..BLOCK - 1 {
                known.see_position(0, 0, position, block < accepted);
            }
        }
        let costs = Arc::new(super::tests::NEAR.costs());
        let policy = Adaptive::new(costs, Arc::new(Mutex::new(known)), &proposers, BLOCK);
        let mut policy = if explores { policy.exploring() } else { policy };
        policy.meet(Company { sequences, rows: sequences, drafting: sequences });
        policy.watches(0)
    };
    let (poor, good) = (3, 62);
    assert_eq!(
        [watches(poor, 4, false), watches(poor, 4, true), watches(poor, 1, false)],
        [false, true, true]
    );
    assert!(watches(good, 4, false));
}
