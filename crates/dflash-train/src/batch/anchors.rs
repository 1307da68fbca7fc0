use std::ops::Range;

/// A seeded choice of positions.
#[derive(Debug, Clone)]
pub struct Anchors {
    state: u64,
}

impl Anchors {
    /// The same `seed` and `step` choose the same positions, so that a run can go on where it stopped.
    pub fn new(seed: u64, step: u64) -> Self {
        let mut anchors = Self { state: seed };
        anchors.state = anchors.bits() ^ step.wrapping_mul(0xd6e8_feb8_6659_fd93);
        anchors
    }

    /// `count` of the positions in `among`, or all of them where there are no more, ascending and each once
    /// (Floyd's algorithm).
    pub fn draw(&mut self, among: Range<usize>, count: usize) -> Vec<usize> {
        let count = count.min(among.len());
        let mut chosen = std::collections::BTreeSet::new();
        for last in among.end - count..among.end {
            let place = among.start + self.below(last - among.start + 1);
            if !chosen.insert(place) {
                chosen.insert(last);
            }
        }
        chosen.into_iter().collect()
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// SplitMix64.
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ascending_and_depend_on_seed_and_step_alone() {
        let draw = |seed, step| Anchors::new(seed, step).draw(10..60, 20);
        let drawn = draw(1, 1);
        assert_eq!(drawn.len(), 20);
        assert!(drawn.is_sorted_by(|a, b| a < b) && drawn[0] >= 10 && drawn[19] < 60, "{drawn:?}");
        assert_eq!(drawn, draw(1, 1));
        assert!(drawn != draw(1, 2) && drawn != draw(2, 1));
    }

    #[test]
    fn every_position_is_drawn_as_often() {
        let mut anchors = Anchors::new(3, 0);
        let mut times = [0; 12];
        (0..3000).for_each(|_| anchors.draw(0..12, 4).iter().for_each(|&place| times[place] += 1));
        assert!(times.iter().all(|&times| (900..1100).contains(&times)), "{times:?}");
    }

    #[test]
    fn short_answers_give_all_they_have() {
        assert_eq!(Anchors::new(0, 0).draw(5..8, 10), [5, 6, 7]);
        assert!(Anchors::new(0, 0).draw(5..5, 10).is_empty());
    }
}
