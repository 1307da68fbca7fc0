use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;

/// Requests that are remembered.
const REMEMBERED: usize = 32;
/// Seconds that a rate looks back.
const LOOK_BACK: u64 = 60;

/// What was of late.
#[derive(Debug, Clone)]
pub struct Recent {
    began: Instant,
    /// The last answers, the newest at the end.
    pub records: VecDeque<Value>,
    /// Answers that ended in a second, by the second's number.
    seconds: VecDeque<(u64, u64)>,
}

impl Recent {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { began: Instant::now(), records: VecDeque::new(), seconds: VecDeque::new() }
    }

    /// An answer ended.
    pub fn push(&mut self, record: Value) {
        if self.records.len() == REMEMBERED {
            self.records.pop_front();
        }
        self.records.push_back(record);
        self.count(self.began.elapsed().as_secs());
    }

    fn count(&mut self, second: u64) {
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.seconds.push_back((second, 1)),
        }
        while self.seconds.front().is_some_and(|(first, _)| first + LOOK_BACK <= second) {
            self.seconds.pop_front();
        }
    }

    /// Answers per second within the last minute, or since the start.
    pub fn per_second(&self) -> f64 {
        let passed = self.began.elapsed();
        self.within(passed.as_secs()) as f64 / passed.as_secs_f64().clamp(1.0, LOOK_BACK as f64)
    }

    fn within(&self, now: u64) -> u64 {
        let recent = self.seconds.iter().filter(|(second, _)| second + LOOK_BACK > now);
        recent.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_counted_and_no_more_is_kept() {
        let mut recent = Recent::new();
        for second in [0, 0, 1, 59, 60, 61] {
            recent.count(second);
        }
        assert_eq!(recent.within(61), 3);
        assert_eq!(recent.seconds.len(), 3);
        assert_eq!(recent.within(200), 0);
    }

    #[test]
    fn the_oldest_record_goes() {
        let mut recent = Recent::new();
        (0..40).for_each(|n| recent.push(n.into()));
        assert_eq!((recent.records.len(), &recent.records[0]), (32, &Value::from(8)));
    }
}
