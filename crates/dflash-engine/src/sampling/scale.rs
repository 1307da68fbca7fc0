/// Logits of a row as seen from its highest: what an id lacks, at a temperature, and its mass `exp` of that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    max: f32,
    inverse: f64,
}

const LANES: usize = 16;
/// Masses that are computed together; a multiple of the lanes.
const PIECE: usize = 256;

impl Scale {
    /// `max` is the highest logit.
    pub fn new(max: f32, temperature: f64) -> Self {
        Self { max, inverse: 1.0 / temperature }
    }

    /// `(max - logit) / temperature`, exactly 0 for the highest.
    pub fn gap(&self, logit: f32) -> f64 {
        // Not a difference of infinities, nor 0 times the infinite inverse of a tiny temperature.
        if logit == self.max { 0.0 } else { (f64::from(self.max) - f64::from(logit)) * self.inverse }
    }

    /// [`Scale::gap`] within 2⁻²² of it, where many are needed.
    pub fn near_gap(&self, logit: f32) -> f32 {
        if logit == self.max { 0.0 } else { (self.max - logit) * self.inverse as f32 }
    }

    /// `exp(-gap)`, 1 for the highest; within 10⁻⁵ of it, and 0 below 10⁻³⁷.
    pub fn mass(&self, logit: f32) -> f32 {
        exp(-self.near_gap(logit))
    }

    /// Sum of the masses of a row: lane `i` takes every 16th value, and lanes are added in order.
    pub fn total(&self, row: &[f32]) -> f64 {
        let (mut lanes, mut masses) = ([0.0_f64; LANES], [0.0; PIECE]);
        for piece in row.chunks(PIECE) {
            masses.iter_mut().zip(piece).for_each(|(mass, &logit)| *mass = self.mass(logit));
            for masses in masses[..piece.len()].chunks(LANES) {
                lanes.iter_mut().zip(masses).for_each(|(lane, &mass)| *lane += f64::from(mass));
            }
        }
        lanes.iter().sum()
    }
}

/// `e^x` for `x` not above 0: `2^n` times a polynomial of degree 6 in what is left.
fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: adding it rounds to a whole number, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let tail = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0)));
    let polynomial = 1.0 + r * (1.0 + r * (0.5 + r * tail));
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    if x < -86.0 { 0.0 } else { polynomial * f32::from_bits(exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_and_exact_at_its_ends() {
        assert_eq!((exp(0.0), exp(-0.0), exp(f32::NEG_INFINITY), exp(-1e30)), (1.0, 1.0, 0.0, 0.0));
        for step in 0..86_000 {
            let x = -step as f32 / 1000.0;
            let expected = libm::exp(f64::from(x));
            assert!((f64::from(exp(x)) / expected - 1.0).abs() < 5e-7, "{x}");
        }
    }

    #[test]
    fn the_highest_has_no_gap_whatever_it_is() {
        for (max, temperature) in [(f32::INFINITY, 1.0), (f32::NEG_INFINITY, 1.0), (3.0, 1e-320)] {
            let scale = Scale::new(max, temperature);
            assert_eq!((scale.gap(max), scale.near_gap(max), scale.mass(max)), (0.0, 0.0, 1.0));
            assert!([f32::NEG_INFINITY, -5.0, 2.0].iter().all(|&logit| !scale.gap(logit).is_nan()));
        }
    }

    #[test]
    fn totals_take_every_value_once() {
        let row = [0.0_f32; 600];
        for len in 0..row.len() {
            assert_eq!(Scale::new(0.0, 1.0).total(&row[..len]), len as f64);
        }
    }
}
