/// Learning rates of a run: a linear rise, then half a cosine down to 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The largest rate.
    pub peak: f64,
    /// Steps of the rise.
    pub warmup: usize,
    /// Steps of the run.
    pub steps: usize,
}

impl Schedule {
    /// The rate of step `step`, counted from 0. Steps behind the end of the run have that of its last.
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let falling = self.steps.saturating_sub(self.warmup).max(1);
        let part = (step - self.warmup).min(falling - 1) as f64 / falling as f64;
        self.peak * 0.5 * (1.0 + (std::f64::consts::PI * part).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_to_the_peak_and_falls_towards_nothing() {
        let schedule = Schedule { peak: 0.5, warmup: 4, steps: 24 };
        let rates: Vec<f64> = (0..24).map(|step| schedule.rate(step)).collect();
        assert_eq!(rates[..4], [0.125, 0.25, 0.375, 0.5]);
        assert_eq!(rates[4], 0.5);
        assert!((rates[14] - 0.25).abs() < 1e-12);
        assert!(rates[4..].is_sorted_by(|a, b| a > b) && rates[23] > 0.0 && rates[23] < 0.005);
        assert_eq!(schedule.rate(1000), rates[23]);
        assert!(Schedule { peak: 1.0, warmup: 5, steps: 2 }.rate(5).is_finite());
    }
}
