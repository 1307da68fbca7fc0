/// A small deterministic generator (SplitMix64): the same seed gives the same numbers for ever.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator of the sequence that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An integer below `end`.
    ///
    /// # Panics
    /// When `end` is zero.
    pub fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "an empty range has no number");
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// A number from -1 to 1, near 0 more often: the mean of four uniform ones, scaled to variance 1/3.
    pub fn bell(&mut self) -> f32 {
        let uniform = |rng: &mut Self| (rng.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
        let sum: f32 = (0..4).map(|_| uniform(self)).sum();
        sum / 2.0
    }

    /// `count` values of [`Rng::bell`] times `scale`.
    pub fn bells(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.bell() * scale).collect()
    }
}
