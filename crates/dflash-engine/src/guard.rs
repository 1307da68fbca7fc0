use crate::TokenMask;

/// What a guard says to a committed id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// End the request here; `keep` tells whether this id still belongs to the answer.
    Stop {
        /// Deliver the id.
        keep: bool,
    },
}

/// Watches the committed ids of a request: it may end it, and say which ids may come. Stop strings are one, a grammar
/// is one; they live outside of the engine, which knows no text.
///
/// What it says is a function of the ids that were pushed, so the answer is the same whatever was drafted.
pub trait TokenGuard: Send {
    /// The next committed id, in order.
    fn push(&mut self, id: u32) -> Verdict;

    /// Ids that may come next; `None` allows all. Asked at the start and after every push, perhaps more than once.
    fn allowed(&mut self) -> Option<&TokenMask> {
        None
    }

    /// How many of `ids` may follow in this order. A drafted id that may not is not verified.
    fn fits(&mut self, ids: &[u32]) -> usize {
        ids.len()
    }

    /// Ids that will come next almost surely, such as the literal text of a grammar: worth verifying, never committed
    /// unseen.
    fn expected(&mut self) -> Vec<u32> {
        Vec::new()
    }
}
