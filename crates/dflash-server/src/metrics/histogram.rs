use serde::Serialize;

/// Seconds that a person notices.
pub const SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Seconds from one id to the next.
pub const BETWEEN: &[f64] =
    &[0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0];
/// Ids of a prompt or an answer.
pub const TOKENS: &[f64] = &[
    1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0,
    131_072.0,
];

/// Values by size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// The upper bound of every bucket, which it includes, and its values; the last one has no bound.
    #[serde(skip)]
    pub buckets: Vec<(f64, u64)>,
    /// Values in all.
    pub count: u64,
    /// Of all values.
    pub sum: f64,
}

impl Histogram {
    /// Without a value yet.
    pub fn new(bounds: &[f64]) -> Self {
        let buckets = bounds.iter().chain([&f64::MAX]).map(|&bound| (bound, 0)).collect();
        Self { buckets, count: 0, sum: 0.0 }
    }

    /// So many values of this size.
    pub fn observe(&mut self, value: f64, times: u64) {
        self.count += times;
        self.sum += value * times as f64;
        if let Some((_, values)) = self.buckets.iter_mut().find(|(bound, _)| value <= *bound) {
            *values += times;
        }
    }
}
