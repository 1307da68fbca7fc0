use std::time::Duration;

use serde_json::{Value, json};

/// Durations, to be told by percentiles.
#[derive(Default)]
pub struct Spread(Vec<f64>);

impl Spread {
    pub fn add(&mut self, duration: Duration) {
        self.0.push(duration.as_secs_f64() * 1e3);
    }

    /// Milliseconds that so many of a hundred do not exceed; 0 of nothing.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    pub fn json(&self) -> Value {
        json!({"p50": self.percentile(50.0), "p90": self.percentile(90.0), "p99": self.percentile(99.0), "max": self.percentile(100.0)})
    }

    pub fn text(&self) -> String {
        let [p50, p90, p99, max] = [50.0, 90.0, 99.0, 100.0].map(|percent| self.percentile(percent));
        format!("p50 {p50:.1} ms, p90 {p90:.1}, p99 {p99:.1}, at most {max:.1}")
    }
}

/// The middle one; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}
