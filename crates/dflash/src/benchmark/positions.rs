use dflash_engine::Stats;
use serde::Serialize;

/// Drafted ids by their position in the block.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Positions(Vec<Position>);

/// Drafted ids of one position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Position {
    /// Position behind the staged token, from 1.
    pub position: usize,
    /// Ids that were verified.
    pub verified: usize,
    /// Those that were accepted, with all before them.
    pub accepted: usize,
    /// `accepted` over `verified`.
    pub rate: f64,
}

impl Positions {
    /// Counts those of an answer.
    pub fn add(&mut self, stats: &Stats) {
        for (index, count) in stats.accepted_by_position.iter().enumerate() {
            if self.0.len() == index {
                self.0.push(Position { position: index + 1, verified: 0, accepted: 0, rate: 0.0 });
            }
            let position = &mut self.0[index];
            position.verified += count.verified;
            position.accepted += count.accepted;
            position.rate = position.accepted as f64 / position.verified.max(1) as f64;
        }
    }

    /// The rates in order.
    pub fn rates(&self) -> Vec<f64> {
        self.0.iter().map(|position| position.rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use dflash_engine::PositionCount;

    use super::*;

    #[test]
    fn answers_are_counted_together() {
        let mut positions = Positions::default();
        let count = |verified, accepted| PositionCount { verified, accepted };
        for counts in [vec![count(4, 2)], vec![], vec![count(4, 4), count(2, 1)]] {
            positions.add(&Stats { accepted_by_position: counts, ..Stats::default() });
        }
        assert_eq!(positions.rates(), [0.75, 0.5]);
        let first = Position { position: 1, verified: 8, accepted: 6, rate: 0.75 };
        assert_eq!(positions.0[0], first);
    }
}
