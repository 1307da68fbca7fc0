/// A running mean that begins at a prior and forgets what is older than about `memory` observations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    pub value: f64,
    weight: f64,
    memory: f64,
}

impl Mean {
    /// `prior` counts for `weight` observations.
    pub fn new(prior: f64, weight: f64, memory: f64) -> Self {
        Self { value: prior, weight, memory }
    }

    pub fn see(&mut self, value: f64) {
        self.weight = (self.weight + 1.0).min(self.memory);
        self.value += (value - self.value) / self.weight;
    }
}

/// Acceptance per position of a block, when all before were accepted.
#[derive(Debug, Clone)]
pub(super) struct Positions {
    means: Vec<Mean>,
    /// Positions from the first on that were tried.
    tried: usize,
}

impl Positions {
    /// Priors of all positions, of which the first `tried` are more than a guess.
    pub fn new(means: Vec<Mean>, tried: usize) -> Self {
        Self { means, tried }
    }

    pub fn see(&mut self, position: usize, value: f64) {
        if position >= self.tried {
            let before = self.at(position);
            self.means[position].value = before;
            self.tried = position + 1;
        }
        self.means[position].see(value);
    }

    /// Of all positions: one that was never tried is as good as the last one that was.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.means.len()).map(|position| self.at(position))
    }

    fn at(&self, position: usize) -> f64 {
        self.means[position.min(self.tried.saturating_sub(1))].value
    }
}

/// Upper ends of the bins of a draft's own probability.
const ENDS: [f32; 8] = [0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 0.97];
/// Bins of a draft's own probability.
pub(super) const BINS: usize = ENDS.len() + 1;
/// A prior of each: about what a draft that knows itself would get, a bit less.
const PRIORS: [f64; BINS] = [0.03, 0.08, 0.2, 0.34, 0.48, 0.62, 0.77, 0.88, 0.95];

/// The bin of a probability.
pub(super) fn bin(confidence: f32) -> usize {
    ENDS.iter().take_while(|&&end| confidence > end).count()
}

/// How often ids of a bin are accepted when nothing is known of a draft.
pub(super) fn prior_of_bin(bin: usize) -> f64 {
    PRIORS[bin]
}

/// How likely a drafted id is accepted when all before it are, by the draft's own probability of it and by its
/// position: a draft that cannot know what stands before an id is wrong the more often the later it comes.
pub(super) struct Calibration {
    /// By bin of probability.
    bins: Vec<Mean>,
    /// By position, on top of that.
    positions: Vec<Ratio>,
}

impl Calibration {
    /// From priors per bin, for blocks of `block` rows.
    pub fn new(bins: Vec<Mean>, block: usize) -> Self {
        Self { bins, positions: vec![Ratio::default(); block] }
    }

    pub fn at(&self, position: usize, confidence: f32) -> f64 {
        self.of_bin(position, self.bins[bin(confidence)].value)
    }

    /// As if nothing were known of how right the draft is when it is so sure.
    pub fn trusting(&self, position: usize, confidence: f32) -> f64 {
        self.at(position, confidence).max(prior_of_bin(bin(confidence)))
    }

    pub fn see(&mut self, position: usize, confidence: f32, accepted: bool) {
        let (mean, value) = (&mut self.bins[bin(confidence)], f64::from(u8::from(accepted)));
        self.positions[position].see(mean.value, value);
        mean.see(value);
    }

    fn of_bin(&self, position: usize, mean: f64) -> f64 {
        (mean * self.positions[position].value()).min(SUREST)
    }
}

/// Nothing is surer than this.
const SUREST: f64 = 0.998;

/// Accepted over expected, near 1 until much was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Ratio {
    expected: f64,
    accepted: f64,
}

impl Ratio {
    /// Ids that the prior 1 counts for, and those that are remembered.
    const PRIOR: f64 = 4.0;
    const MEMORY: f64 = 32.0;

    fn see(&mut self, expected: f64, accepted: f64) {
        self.expected += expected;
        self.accepted += accepted;
        if self.expected > Self::MEMORY {
            self.expected /= 2.0;
            self.accepted /= 2.0;
        }
    }

    fn value(&self) -> f64 {
        (self.accepted + Self::PRIOR) / (self.expected + Self::PRIOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_goes_from_its_prior_to_what_it_sees_and_forgets() {
        let mut mean = Mean::new(0.5, 2.0, 8.0);
        mean.see(1.0);
        assert!((mean.value - 2.0 / 3.0).abs() < 1e-9);
        (0..100).for_each(|_| mean.see(1.0));
        assert!(mean.value > 0.99);
        (0..16).for_each(|_| mean.see(0.0));
        assert!(mean.value < 0.2, "{}", mean.value);
    }

    #[test]
    fn a_position_that_was_never_tried_is_as_good_as_the_last_one_that_was() {
        let mut positions = Positions::new(vec![Mean::new(0.5, 1.0, 8.0); 4], 0);
        assert!(positions.values().eq([0.5; 4]));
        positions.see(0, 1.0);
        assert!(positions.values().eq([0.75; 4]));
        positions.see(1, 0.0);
        assert!(positions.values().eq([0.75, 0.375, 0.375, 0.375]));
    }

    #[test]
    fn a_calibration_tells_positions_apart_that_are_equally_sure() {
        let mut calibration = Calibration::new(vec![Mean::new(0.8, 3.0, 48.0); BINS], 3);
        for _ in 0..40 {
            calibration.see(0, 0.95, true);
            calibration.see(1, 0.95, false);
        }
        assert!(calibration.at(0, 0.95) > 0.8, "{}", calibration.at(0, 0.95));
        assert!(calibration.at(1, 0.95) < 0.15, "{}", calibration.at(1, 0.95));
        assert!((0.4..0.6).contains(&calibration.at(2, 0.95)), "{}", calibration.at(2, 0.95));
        assert_eq!(calibration.at(2, 0.5), 0.8, "another bin");
        assert!(calibration.trusting(1, 0.95) > 0.8);
    }

    #[test]
    fn every_probability_has_a_bin() {
        let bins = [-1.0, 0.0, 0.05, 0.06, 0.5, 0.96, 0.98, 1.0, f32::NAN].map(bin);
        assert_eq!(bins, [0, 0, 0, 1, 4, 7, 8, 8, 0]);
        assert!(PRIORS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
