/// SplitMix64: the same numbers on every machine and in every version.
pub(super) struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1: the high part of a product.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// One of `items`, which are some.
    pub(super) fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_that_others_publish() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut random = Random::new(0);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(1), 0);
    }
}
