use super::Noise;
use super::scale::Scale;

/// Ids whose bounds are computed together; a multiple of four.
const PIECE: usize = 256;

/// The exponential race (the Gumbel trick): among ids with probabilities `p`, the one with the lowest `E / p` wins with
/// probability `p`, where the `E` are exponential.
///
/// `E / p` is here `E · exp(gap)`. As `E ≥ u` and `exp(gap) ≥ 1 + gap + gap²/2`, most ids are beaten before a logarithm
/// is taken, and the winner is the same.
pub(super) struct Race<'a> {
    row: &'a [f32],
    scale: Scale,
    noise: Noise,
    winner: u32,
    /// Its time.
    best: f64,
    /// A bound above this cannot win.
    limit: f32,
}

/// More than what bounds and times err by, together.
const SLACK: f64 = 1.0 + 1e-4;

impl<'a> Race<'a> {
    /// With one runner, best the most probable one.
    pub fn new(row: &'a [f32], scale: Scale, noise: Noise, first: u32) -> Self {
        let mut race = Self { row, scale, noise, winner: first, best: f64::INFINITY, limit: f32::INFINITY };
        race.run(first, noise.exponential(first));
        race
    }

    /// Runs these ids.
    pub fn among(mut self, ids: &[u32]) -> u32 {
        ids.iter().for_each(|&id| self.run(id, self.noise.exponential(id)));
        self.winner
    }

    /// Runs every id of the row.
    pub fn among_all(mut self) -> u32 {
        let (mut highs, mut bounds) = ([0; PIECE], [0.0; PIECE]);
        for (piece, logits) in self.row.chunks(PIECE).enumerate() {
            let first = (piece * PIECE) as u32;
            let (blocks, _) = highs.as_chunks_mut::<4>();
            let blocks = blocks.iter_mut().zip(first / 4..).take(logits.len().div_ceil(4));
            blocks.for_each(|(highs, block)| *highs = self.noise.highs(block));
            self.bound(logits, &highs, &mut bounds);
            for ((id, &high), bound) in (first..).zip(&highs).zip(bounds).take(logits.len()) {
                // One that is not a number (0 times infinity) is not above.
                let hopeless = bound > self.limit;
                if !hopeless {
                    self.run(id, self.noise.refined(id, high));
                }
            }
        }
        self.winner
    }

    /// Times that ids do not beat.
    fn bound(&self, logits: &[f32], highs: &[u32; PIECE], bounds: &mut [f32; PIECE]) {
        for ((bound, &logit), &high) in bounds.iter_mut().zip(logits).zip(highs) {
            // The upper 24 bits: never more than `u`.
            let floor = (high >> 8) as i32 as f32 * (1.0 / 16_777_216.0);
            let gap = self.scale.near_gap(logit);
            *bound = floor * (1.0 + gap * (1.0 + 0.5 * gap));
        }
    }

    fn run(&mut self, id: u32, exponential: f64) {
        let time = exponential * libm::exp(self.scale.gap(self.row[id as usize]));
        if time < self.best || time == self.best && id < self.winner {
            (self.best, self.winner) = (time, id);
            self.limit = (time * SLACK) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of any length and steepness, with ties, infinities and what a hash makes of the position.
    fn row(len: usize, spread: f32, position: usize) -> Vec<f32> {
        let noise = Noise::new(99, 7, position);
        (0..len as u32).map(|id| (noise.exponential(id) as f32 * spread).min(30.0).round() / 4.0).collect()
    }

    #[test]
    fn pruning_changes_no_winner() {
        for (len, spread) in
            [(1, 1.0), (31, 3.0), (32, 3.0), (33, 10.0), (1000, 0.0), (1000, 8.0), (5000, 30.0)]
        {
            for position in 0..60 {
                let mut row = row(len, spread, position);
                row[len / 2] = f32::NEG_INFINITY;
                let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let first = row.iter().position(|&logit| logit == max).unwrap() as u32;
                for temperature in [0.3, 1.0, 7.0] {
                    let (scale, noise) = (Scale::new(max, temperature), Noise::new(3, 0, position));
                    let race = || Race::new(&row, scale, noise, first);
                    let every = (0..len as u32).collect::<Vec<_>>();
                    assert_eq!(
                        race().among_all(),
                        race().among(&every),
                        "{len} ids, {spread}, {temperature}"
                    );
                    let mut backwards = every;
                    backwards.reverse();
                    assert_eq!(race().among_all(), race().among(&backwards), "order does not matter");
                }
            }
        }
    }
}
