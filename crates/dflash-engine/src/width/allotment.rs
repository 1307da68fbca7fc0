use std::cmp::Reverse;
use std::sync::Arc;

use super::live::LiveCosts;
use super::{Company, Plan};
use crate::{Node, StepCosts};

/// Steps that the pace and the company of drafts remember.
const MEMORY: f64 = 32.0;

/// Shares the rows of a step among the blocks that were drafted for it: the most probable nodes of all of them, as far
/// as each is worth more than what its time would bring otherwise. So blocks shrink as a batch grows.
///
/// Every policy has cut its own block as if the others decoded plainly; together they may still be too much, as rows
/// cost the more the more there are.
pub(crate) struct Allotment {
    costs: LiveCosts,
    /// Ids of late, and the time that they took in plain steps' shares of one id.
    ids: f64,
    steps: f64,
    /// Which part of the others drafts too, of late.
    drafting: f64,
    /// Reach, block and number of every node of the step.
    nodes: Vec<(f64, usize, usize)>,
}

/// What a step showed.
pub(crate) struct Shown {
    /// Rows of all sequences.
    pub rows: usize,
    /// Seconds without the drafts.
    pub seconds: f64,
    /// Ids delivered.
    pub ids: usize,
    /// Sequences for which a draft's pass was run.
    pub drafted: usize,
}

impl Allotment {
    pub fn new(costs: Arc<StepCosts>) -> Self {
        let (ids, steps) = (MEMORY / 4.0, MEMORY / 4.0);
        let costs = LiveCosts::new(costs);
        Self { costs, ids, steps, drafting: 1.0, nodes: Vec::new() }
    }

    /// Among how many of `sequences` a draft's pass is divided.
    pub fn drafting(&self, sequences: usize) -> usize {
        1 + (self.drafting * sequences.saturating_sub(1) as f64).round() as usize
    }

    /// Widens plans so that sequences share a pass of their proposer, where that takes less time than passes of their
    /// own.
    pub fn join(&self, plans: &mut [Plan]) {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.retain(|&index| plans[index].proposer.is_some_and(|proposer| self.costs.is_costly(proposer)));
        order.sort_by_key(|&index| (plans[index].proposer, plans[index].ranks, Reverse(plans[index].width)));
        let (mut wide, mut mates, mut joined) = (Plan::PLAIN, 0, Vec::new());
        for same in order.chunk_by(|&a, &b| plans[a] == plans[b]) {
            let (plan, more) = (plans[same[0]], same.len());
            let proposer = plan.proposer.expect("one that drafts");
            let pass = |rows: usize| self.costs.propose_among(proposer, rows, 1);
            let apart = pass(mates * wide.width) + pass(more * plan.width);
            let alike = (wide.proposer, wide.ranks) == (plan.proposer, plan.ranks);
            if alike && pass((mates + more) * wide.width) <= apart {
                joined.extend(same.iter().map(|&index| (index, wide.width)));
                mates += more;
            } else {
                (wide, mates) = (plan, more);
            }
        }
        joined.into_iter().for_each(|(index, width)| plans[index].width = width);
    }

    /// A step begins.
    pub fn meet(&mut self, company: Company) {
        self.costs.meet(company);
        self.nodes.clear();
    }

    /// A block was drafted; parents come before their children.
    pub fn offer(&mut self, block: usize, nodes: &[Node]) {
        self.nodes.extend(nodes.iter().enumerate().map(|(number, node)| (node.reach, block, number)));
    }

    /// Picks the nodes that are verified: of every block some of the first.
    pub fn allot(&mut self) {
        if self.nodes.is_empty() || self.costs.company().sequences < 2 {
            return;
        }
        self.nodes.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.2, a.1).cmp(&(b.2, b.1))));
        let (rows, pace) = (self.costs.company().rows, self.pace());
        let worth = |ids: f64, more: usize| ids - pace * self.costs.step(rows + more);
        let (mut best, mut ids) = ((worth(0.0, 0), 0), 0.0);
        for (index, &(reach, ..)) in self.nodes.iter().enumerate() {
            ids += reach;
            let all = worth(ids, index + 1);
            if all > best.0 {
                best = (all, index + 1);
            }
        }
        self.nodes.truncate(best.1);
    }

    /// Nodes of a block that are verified.
    pub fn kept(&self, block: usize) -> usize {
        self.nodes.iter().filter(|node| node.1 == block).count()
    }

    /// A step is over.
    pub fn record(&mut self, shown: &Shown) {
        let Company { sequences, rows, .. } = self.costs.company();
        if sequences == 0 {
            return;
        }
        self.costs.saw_step(shown.rows, shown.seconds, shown.rows == rows);
        const KEEP: f64 = 1.0 - 1.0 / MEMORY;
        self.ids = KEEP * self.ids + shown.ids as f64;
        self.steps = KEEP * self.steps + self.costs.step(shown.rows) / self.costs.plain();
        if shown.drafted > 0 && sequences > 1 {
            let part = (shown.drafted - 1) as f64 / (sequences - 1) as f64;
            self.drafting += (part - self.drafting) / MEMORY;
        }
    }

    /// Ids per second.
    fn pace(&self) -> f64 {
        (self.ids / self.steps).max(1.0) / self.costs.plain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Curve;

    fn chain(reaches: &[f64]) -> Vec<Node> {
        let node = |(position, &reach): (usize, &f64)| Node {
            parent: position.checked_sub(1),
            position,
            rank: 0,
            reach,
        };
        reaches.iter().enumerate().map(node).collect()
    }

    fn kept(points: Vec<(usize, f64)>, blocks: &[&[f64]]) -> Vec<usize> {
        let costs = StepCosts { verify: Curve::new(points), propose: vec![None] };
        let mut allotment = Allotment::new(Arc::new(costs));
        let sequences = blocks.len();
        allotment.meet(Company { sequences, rows: sequences, drafting: 1 });
        blocks.iter().enumerate().for_each(|(block, reaches)| allotment.offer(block, &chain(reaches)));
        allotment.allot();
        (0..sequences).map(|block| allotment.kept(block)).collect()
    }

    #[test]
    fn the_most_probable_rows_of_all_blocks_are_verified_as_far_as_they_pay() {
        let (good, poor) = ([0.9, 0.8, 0.7], [0.5, 0.2, 0.1]);
        // Three sequences at a second a step: three ids a second. A row more costs 0.1 s, or 0.3 ids.
        let even = vec![(1, 0.8), (3, 1.0), (64, 7.1)];
        assert_eq!(kept(even, &[&good, &poor, &[]]), [3, 1, 0]);
        // Rows beyond the fourth cost 0.4 s, or 1.2 ids.
        let steep = vec![(1, 0.8), (3, 1.0), (4, 1.2), (64, 25.2)];
        assert_eq!(kept(steep, &[&good, &poor, &[]]), [1, 0, 0]);
        assert_eq!(kept(vec![(1, 1.0), (64, 1.1)], &[&good, &poor, &[]]), [3, 3, 0]);
    }

    #[test]
    fn the_block_of_a_sequence_alone_is_as_its_policy_wants_it() {
        assert_eq!(kept(vec![(1, 1.0), (64, 64.0)], &[&[0.1, 0.01]]), [2]);
        assert_eq!(kept(vec![(1, 1.0), (64, 64.0)], &[&[0.1, 0.01], &[]]), [0, 0]);
    }

    #[test]
    fn plans_join_where_one_pass_is_cheaper_than_two() {
        let widths = |points: Vec<(usize, f64)>, widths: &[usize]| -> Vec<usize> {
            let propose = vec![Some(Curve::new(points))];
            let costs = StepCosts { verify: Curve::new(vec![(1, 1.0)]), propose };
            let mut plans: Vec<Plan> = widths.iter().map(|&width| Plan::chain(0, width)).collect();
            plans.push(Plan::PLAIN);
            Allotment::new(Arc::new(costs)).join(&mut plans);
            assert_eq!(plans.pop(), Some(Plan::PLAIN));
            plans.iter().map(|plan| plan.width).collect()
        };
        let (flat, steep) = (vec![(1, 1.0), (64, 1.5)], vec![(1, 0.1), (64, 6.4)]);
        assert_eq!(widths(flat, &[2, 16, 4, 8]), [16; 4]);
        assert_eq!(widths(steep.clone(), &[2, 16, 4, 16]), [2, 16, 4, 16]);
        assert_eq!(widths(steep, &[7]), [7]);
        assert_eq!(
            widths(vec![(2, 0.36), (4, 0.4), (8, 0.55), (16, 0.95), (32, 1.8)], &[8, 6, 2]),
            [8, 8, 2]
        );
    }

    #[test]
    fn the_company_of_drafts_follows_what_was_seen() {
        let costs = StepCosts { verify: Curve::new(vec![(1, 1.0)]), propose: vec![None] };
        let mut allotment = Allotment::new(Arc::new(costs));
        assert_eq!([1, 4, 8].map(|sequences| allotment.drafting(sequences)), [1, 4, 8]);
        for _ in 0..200 {
            allotment.meet(Company { sequences: 5, rows: 5, drafting: 1 });
            allotment.record(&Shown { rows: 9, seconds: 1.0, ids: 6, drafted: 2 });
        }
        assert_eq!([1, 5, 9].map(|sequences| allotment.drafting(sequences)), [1, 2, 3]);
    }
}
