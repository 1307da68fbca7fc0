/// A seeded stream of numbers of the standard normal distribution: SplitMix64 (Steele, Lea, Flood 2014), then the
/// transform of Box and Muller.
pub struct Normal {
    state: u64,
}

impl Normal {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next one.
    pub fn draw(&mut self) -> f32 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.unit()).cos()) as f32
    }

    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_the_standard() {
        let mut normal = Normal::new(7);
        let values: Vec<f64> = (0..20_000).map(|_| normal.draw().into()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        let within = values.iter().filter(|value| value.abs() < 1.0).count() as f64 / values.len() as f64;
        assert!((within - 0.6827).abs() < 0.01, "{within}");
        assert_ne!(Normal::new(8).draw(), values[0] as f32);
    }
}
