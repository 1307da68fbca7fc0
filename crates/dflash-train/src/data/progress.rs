use std::fmt;
use std::time::{Duration, Instant};

/// How far the making of answers is.
#[derive(Debug, Clone)]
pub struct DataProgress {
    /// Answers that are kept.
    pub sequences: usize,
    /// Ids of these answers.
    pub tokens: usize,
    /// Ids that are wished for.
    pub goal: usize,
    /// Prompts whose answers were left out.
    pub dropped: usize,
    /// Ids at the beginning of this run.
    pub(super) before: usize,
    pub(super) began: Instant,
}

impl DataProgress {
    /// Ids of answers a second, in this run.
    pub fn tokens_per_second(&self) -> f64 {
        (self.tokens - self.before) as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// Time to the goal at this speed; `None` before the first answer.
    pub fn left(&self) -> Option<Duration> {
        let seconds = self.goal.saturating_sub(self.tokens) as f64 / self.tokens_per_second();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl fmt::Display for DataProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, tokens, goal, dropped, .. } = self;
        let percent = 100 * tokens / (*goal).max(1);
        write!(
            f,
            "{sequences} answers | {tokens} of {goal} tokens ({percent} %) | {:.0} tok/s",
            self.tokens_per_second()
        )?;
        if let Some(left) = self.left() {
            write!(f, " | {} min left", left.as_secs().div_ceil(60))?;
        }
        write!(f, " | {dropped} dropped")
    }
}
