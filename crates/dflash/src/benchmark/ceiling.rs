use dflash_engine::{Curve, StepCosts};

/// What one proposer could give at best: the speed-up of the best fixed width.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling<'a> {
    /// A pass of the target by rows.
    pub verify: &'a Curve,
    /// A block of the draft by rows; `None` where it costs nothing.
    pub draft: Option<&'a Curve>,
    /// Rows at most.
    pub width: usize,
}

impl<'a> Ceiling<'a> {
    /// By the costs of the dearest proposer, the draft model where there is one.
    pub fn of(costs: &'a StepCosts, width: usize) -> Self {
        Self { verify: &costs.verify, draft: costs.propose.iter().flatten().last(), width }
    }

    /// `reach[i]`: probability that drafted id `i` is accepted together with all before it, which can only fall from
    /// position to position. Where nothing was ever drafted nothing is accepted.
    ///
    /// A cycle of `w` rows gives one id and every drafted one that is reached, in the time of a block and a pass;
    /// plain decoding gives one in the time of a pass over one row.
    pub fn speedup(&self, reach: &[f64]) -> f64 {
        let one = self.verify.at(1);
        let (mut ids, mut reached, mut best) = (1.0, 1.0_f64, 1.0_f64);
        for (&reach, width) in reach.iter().zip(2..=self.width) {
            reached = reached.min(reach);
            ids += reached;
            let seconds = self.verify.at(width) + self.draft.map_or(0.0, |curve| curve.at(width));
            best = best.max(ids * one / seconds);
        }
        best
    }

    /// The same where every drafted id is right with the same probability.
    pub fn speedup_at(&self, rate: f64) -> f64 {
        let reach: Vec<f64> = (1..self.width as i32).map(|position| rate.powi(position)).collect();
        self.speedup(&reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_width_counts() {
        let verify = Curve::new(vec![(1, 1.0), (2, 1.25), (3, 3.0), (4, 4.0)]);
        let draft = Curve::new(vec![(2, 0.25), (4, 0.25)]);
        let ceiling = Ceiling { verify: &verify, draft: Some(&draft), width: 4 };
        // Two rows: 1.5 ids in 1.5; three rows: 1.75 in 3.25; plain: 1 in 1.
        assert_eq!(ceiling.speedup(&[0.5, 0.25, 0.125]), 1.0);
        // Two rows: 1.8 in 1.5.
        assert!((ceiling.speedup(&[0.8, 0.4]) - 1.2).abs() < 1e-12);
        // Without the cost of a draft: 1.5 in 1.25.
        assert!((Ceiling { draft: None, ..ceiling }.speedup(&[0.5]) - 1.2).abs() < 1e-12);
    }

    #[test]
    fn a_sure_draft_fills_the_block_and_no_more() {
        let verify = Curve::new(vec![(1, 1.0), (8, 2.0)]);
        let ceiling = Ceiling { verify: &verify, draft: None, width: 8 };
        assert_eq!(ceiling.speedup(&[1.0; 20]), 4.0);
        assert_eq!([1.0, 0.0].map(|rate| ceiling.speedup_at(rate)), [4.0, 1.0]);
        assert_eq!(ceiling.speedup(&[]), 1.0);
        // Two rows: 1.5 ids in 8/7; three: 1.75 in 9/7; four: 1.875 in 10/7.
        assert!((ceiling.speedup_at(0.5) - 1.75 * 7.0 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_position_is_reached_through_those_before() {
        let verify = Curve::new(vec![(1, 1.0), (2, 1.0), (3, 1.0)]);
        let ceiling = Ceiling { verify: &verify, draft: None, width: 3 };
        assert_eq!(ceiling.speedup(&[0.25, 0.75]), 1.5);
    }

    #[test]
    fn costs_of_the_draft_model_stand_behind_those_of_a_copy() {
        let draft = Curve::new(vec![(2, 0.5)]);
        let costs =
            StepCosts { verify: Curve::new(vec![(1, 1.0)]), propose: vec![None, Some(draft.clone())] };
        assert_eq!(Ceiling::of(&costs, 8).draft, Some(&draft));
        assert!(Ceiling::of(&StepCosts { propose: vec![None], ..costs }, 8).draft.is_none());
    }
}
