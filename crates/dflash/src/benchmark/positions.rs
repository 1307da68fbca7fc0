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
    /// Ids that were verified when all before them were right.
    pub verified: usize,
    /// Those that were right.
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

    /// The rates in order; 0 where nothing was verified.
    pub fn rates(&self) -> Vec<f64> {
        self.0.iter().map(|position| position.rate).collect()
    }
}
