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

/// Watches the committed ids of a request and may end it. Stop strings are one; they live outside of the
/// engine, which knows no text.
pub trait TokenGuard: Send {
    /// The next committed id, in order.
    fn push(&mut self, id: u32) -> Verdict;
}
