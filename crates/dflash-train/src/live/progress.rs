use std::fmt;
use std::time::{Duration, Instant};

/// How far something is that is counted in ids.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Ids done.
    pub done: usize,
    /// Ids in all.
    pub total: usize,
    began: Instant,
}

impl Progress {
    /// Of nothing yet.
    pub fn begin(total: usize) -> Self {
        Self { done: 0, total, began: Instant::now() }
    }

    /// Some more are done.
    pub fn add(&mut self, ids: usize) {
        self.done += ids;
    }

    /// Ids per second so far.
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// Time that is left at this pace; `None` before anything is done.
    pub fn left(&self) -> Option<Duration> {
        let elapsed = self.began.elapsed().as_secs_f64();
        let rest = self.total.saturating_sub(self.done) as f64;
        (self.done > 0).then(|| Duration::from_secs_f64(elapsed * rest / self.done as f64))
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, total, .. } = self;
        write!(
            f,
            "{done} of {total} ids ({} %) | {:.0} ids/s",
            100 * done / (*total).max(1),
            self.per_second()
        )?;
        match self.left() {
            Some(left) => write!(f, " | {} min left", left.as_secs().div_ceil(60)),
            None => Ok(()),
        }
    }
}
