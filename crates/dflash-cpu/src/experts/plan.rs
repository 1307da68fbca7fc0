//! The order of work: pairs of a row and one of its experts (slots), those of an expert next to each other.

use std::ops::Range;

use super::route::Pick;

/// The slots of an expert.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Share {
    pub(super) expert: usize,
    pub(super) slots: Range<usize>,
}

/// Slots in the order of experts, then of rows. Its storage is reused from call to call.
#[derive(Default)]
pub(super) struct Plan {
    /// Experts in use.
    pub(super) shares: Vec<Share>,
    /// The slot of a row's pick: `[rows, top_k]`.
    pub(super) slots: Vec<usize>,
    /// The next free slot of every expert.
    next: Vec<usize>,
}

impl Plan {
    /// Orders the picks of all rows, `[rows, top_k]`.
    pub(super) fn fill(&mut self, picks: &[Pick], experts: usize) {
        self.share_out(picks, experts);
        self.slots.resize(picks.len(), 0);
        for (index, pick) in picks.iter().enumerate() {
            let slot = self.next[pick.expert];
            self.next[pick.expert] += 1;
            self.slots[index] = slot;
        }
    }

    /// Counts the slots of every expert and lets the experts follow each other.
    fn share_out(&mut self, picks: &[Pick], experts: usize) {
        self.next.clear();
        self.next.resize(experts, 0);
        picks.iter().for_each(|pick| self.next[pick.expert] += 1);
        self.shares.clear();
        let mut first = 0;
        for (expert, next) in self.next.iter_mut().enumerate() {
            let count = std::mem::replace(next, first);
            if count > 0 {
                self.shares.push(Share { expert, slots: first..first + count });
            }
            first += count;
        }
    }

    /// The groups of outputs that `items` stand for, share by share: every share has `groups` items.
    pub(super) fn pieces(
        &self,
        items: Range<usize>,
        groups: usize,
    ) -> impl Iterator<Item = (&Share, Range<usize>)> {
        let shares = items.start / groups..items.end.div_ceil(groups);
        shares.map(move |share| {
            let first = share * groups;
            let piece = items.start.max(first)..items.end.min(first + groups);
            (&self.shares[share], piece.start - first..piece.end - first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(experts: &[usize]) -> Plan {
        let picks: Vec<Pick> = experts.iter().map(|&expert| Pick { expert, weight: 1.0 }).collect();
        let mut plan = Plan::default();
        plan.fill(&[Pick { expert: 4, weight: 0.0 }; 9], 5);
        plan.fill(&picks, 5);
        plan
    }

    #[test]
    fn slots_of_an_expert_stand_together_in_the_order_of_rows() {
        let plan = plan(&[3, 0, 3, 1, 0, 3]);
        let shares = [(0, 0..2), (1, 2..3), (3, 3..6)].map(|(expert, slots)| Share { expert, slots });
        assert_eq!(plan.shares, shares);
        assert_eq!(plan.slots, [3, 0, 4, 2, 1, 5]);
    }

    #[test]
    fn pieces_cover_all_groups_once() {
        let plan = plan(&[3, 0, 3, 1]);
        for cut in 0..=12 {
            let both = [0..cut, cut..12].map(|items| plan.pieces(items, 4));
            let all: Vec<(usize, usize)> = both
                .into_iter()
                .flatten()
                .flat_map(|(share, groups)| groups.map(|group| (share.expert, group)))
                .collect();
            let expected = [0, 1, 3].into_iter().flat_map(|expert| (0..4).map(move |group| (expert, group)));
            assert!(all.into_iter().eq(expected), "cut at {cut}");
        }
    }
}
