//! Until the engine has them.

pub use dflash_engine::Verdict;

/// Ids that may come next: a set of bits over ids, 32 to a word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// Bit `id % 32` of word `id / 32` tells whether `id` is in the set.
    pub fn new(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// Whether `id` is in the set.
    pub fn allows(&self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// The words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}

/// Watches committed ids.
pub trait TokenGuard: Send {
    /// The next committed id, in order.
    fn push(&mut self, id: u32) -> Verdict;

    /// Ids that may come next; `None` allows all.
    fn allowed(&mut self) -> Option<&TokenMask> {
        None
    }

    /// How many of `ids` may follow in this order.
    fn fits(&mut self, ids: &[u32]) -> usize {
        ids.len()
    }

    /// Ids it is nearly sure of.
    fn expected(&mut self) -> Vec<u32> {
        Vec::new()
    }
}
