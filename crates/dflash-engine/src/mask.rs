/// A set of token ids: those that may come next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenMask {
    /// Id `i` is bit `i % 32` of word `i / 32`; ids beyond the words are not in the set.
    words: Vec<u32>,
}

impl TokenMask {
    /// No id, with room for those below `len`.
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(32)] }
    }

    /// From a bit set: id `i` is bit `i % 32` of word `i / 32`.
    pub fn from_words(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// The bit set.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Adds an id.
    ///
    /// # Panics
    /// When the set has no room for it.
    pub fn set(&mut self, id: u32) {
        self.words[id as usize / 32] |= 1 << (id % 32);
    }

    /// Whether an id may come.
    pub fn contains(&self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// Makes the logits of all other ids `-inf`.
    pub(crate) fn apply(&self, row: &mut [f32]) {
        let words = self.words.iter().copied().chain(std::iter::repeat(0));
        for (logits, word) in row.chunks_mut(32).zip(words) {
            match word {
                u32::MAX => {}
                0 => logits.fill(f32::NEG_INFINITY),
                _ => {
                    let others = logits.iter_mut().enumerate().filter(|(bit, _)| word >> bit & 1 == 0);
                    others.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_set_and_hides_the_rest() {
        let mut mask = TokenMask::new(70);
        [0, 31, 32, 69].into_iter().for_each(|id| mask.set(id));
        assert_eq!(mask.words(), [0x8000_0001, 1, 32]);
        assert_eq!(TokenMask::from_words(mask.words().to_vec()), mask);
        let mut row = vec![1.0; 200];
        mask.apply(&mut row);
        for (id, logit) in (0..).zip(row) {
            assert_eq!(logit == 1.0, [0, 31, 32, 69].contains(&id), "{id}");
            assert_eq!(mask.contains(id), logit == 1.0, "{id}");
        }
        assert!(!mask.contains(u32::MAX));
    }

    #[test]
    fn whole_words_stay_or_go() {
        let mut row = vec![2.0; 70];
        TokenMask::from_words(vec![u32::MAX, 0]).apply(&mut row);
        assert!(row[..32].iter().all(|&logit| logit == 2.0));
        assert!(row[32..].iter().all(|&logit| logit == f32::NEG_INFINITY));
    }
}
