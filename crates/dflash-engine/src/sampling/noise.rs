use super::philox::philox;

/// The noise of one position: for every target id a number of its own, uniform in (0, 1), with 64 bits.
///
/// It is a function of (seed, answer, position, id) and nothing else. The upper 32 bits of four ids come together; the
/// lower ones are computed only for the few ids they matter to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    key: [u32; 2],
    position: u32,
    choice: u32,
}

/// Which half of the bits.
const HIGH: u32 = 0;
const LOW: u32 = 1;

impl Noise {
    /// Of an absolute position in answer number `choice` to a request.
    pub fn new(seed: u64, choice: u32, position: usize) -> Self {
        // No model has so many positions that bits were lost here.
        Self { key: [seed as u32, (seed >> 32) as u32], position: position as u32, choice }
    }

    /// Exponential with mean 1: `-ln(1 - u)` of the id's uniform number `u`.
    pub fn exponential(&self, id: u32) -> f64 {
        self.refined(id, self.half(id, HIGH))
    }

    /// As [`Noise::exponential`], where the upper bits are known.
    pub(super) fn refined(&self, id: u32, high: u32) -> f64 {
        let bits = (u64::from(high) << 32 | u64::from(self.half(id, LOW))) as f64;
        // Half a step more, so that it is never 0, and 1 at most.
        -libm::log1p(-((bits + 0.5) * LAST_BIT).min(ALMOST_ONE))
    }

    /// The upper bits of ids `4 * block` to `4 * block + 3`.
    pub(super) fn highs(&self, block: u32) -> [u32; 4] {
        self.block(block, HIGH)
    }

    fn half(&self, id: u32, half: u32) -> u32 {
        self.block(id / 4, half)[id as usize % 4]
    }

    fn block(&self, block: u32, half: u32) -> [u32; 4] {
        philox([block, self.position, self.choice, half], self.key)
    }
}

const LAST_BIT: f64 = 1.0 / 18_446_744_073_709_551_616.0;
/// The largest number below 1.
const ALMOST_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seed_answer_position_and_id_each_change_it() {
        let value = |seed, choice, position, id| Noise::new(seed, choice, position).exponential(id).to_bits();
        let base = value(7, 0, 100, 40);
        let others = [
            value(8, 0, 100, 40),
            value(7 + (1 << 32), 0, 100, 40),
            value(7, 1, 100, 40),
            value(7, 0, 101, 40),
            value(7, 0, 100, 41),
            value(7, 0, 100, 48),
            value(7, 0, 100, 72),
        ];
        assert_eq!(base, value(7, 0, 100, 40));
        assert_eq!(others.iter().chain([&base]).collect::<BTreeSet<_>>().len(), others.len() + 1);
    }

    #[test]
    fn blocks_hold_the_bits_of_single_ids() {
        let noise = Noise::new(0x1234_5678_9abc_def0, 3, 17);
        for block in [0, 1, 1535, 62_000] {
            for (id, high) in (4 * block..).zip(noise.highs(block)) {
                assert_eq!(high, noise.half(id, HIGH), "id {id}");
                assert_eq!(noise.refined(id, high).to_bits(), noise.exponential(id).to_bits());
            }
        }
    }

    #[test]
    fn ends_of_the_range_are_finite_and_positive() {
        let noise = Noise::new(0, 0, 0);
        for high in [0, u32::MAX] {
            let exponential = noise.refined(5, high);
            assert!(exponential > 0.0 && exponential.is_finite(), "{exponential}");
            assert!(exponential >= f64::from(high) / 4_294_967_296.0, "the bound that the race prunes by");
        }
    }

    /// Mean and variance of an exponential, over ids and over positions.
    #[test]
    fn exponentials_have_their_moments() {
        let many = 100_000;
        let over_ids = (0..many).map(|id| Noise::new(1, 0, 5).exponential(id));
        let over_positions = (0..many).map(|position| Noise::new(1, 0, position as usize).exponential(9));
        for values in [over_ids.collect::<Vec<_>>(), over_positions.collect()] {
            let mean = values.iter().sum::<f64>() / f64::from(many);
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(many);
            assert!((mean - 1.0).abs() < 0.015 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
        }
    }
}
