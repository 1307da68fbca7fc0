use std::time::Instant;

/// Times what happens between two calls.
pub(crate) struct Lap(Instant);

impl Lap {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the last lap.
    pub fn end(&mut self) -> f64 {
        let now = Instant::now();
        (now - std::mem::replace(&mut self.0, now)).as_secs_f64()
    }
}
