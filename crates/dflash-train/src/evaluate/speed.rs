use std::fmt;

use dflash_engine::StepCosts;
use serde::Serialize;

/// What a width of blocks comes to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// Rows of a block, the staged token's included; 1 is plain decoding.
    pub width: usize,
    /// Ids that a cycle commits.
    pub tokens_per_cycle: f64,
    /// Seconds of a cycle.
    pub cycle_s: f64,
}

impl Speed {
    /// Ids per second.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens_per_cycle / self.cycle_s
    }
}

/// Speeds by width, from plain decoding on: what drafts and recipes are compared by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speeds(Vec<Speed>);

impl Speeds {
    /// From the part of drafted ids that were accepted with all before them, position by position, and the costs of
    /// steps, where the draft is the first proposer.
    pub fn new(acceptance: &[f64], costs: &StepCosts) -> Self {
        let mut tokens_per_cycle = 1.0;
        let plain = Speed { width: 1, tokens_per_cycle, cycle_s: costs.cycle(None, 1) };
        let drafted = acceptance.iter().zip(2..).map(|(accepted, width)| {
            tokens_per_cycle += accepted;
            Speed { width, tokens_per_cycle, cycle_s: costs.cycle(Some(0), width) }
        });
        Self(std::iter::once(plain).chain(drafted).collect())
    }

    /// Of plain decoding.
    pub fn plain(&self) -> Speed {
        self.0[0]
    }

    /// The fastest of those that draft; `None` where nothing was drafted.
    pub fn best(&self) -> Option<Speed> {
        self.0[1..].iter().copied().max_by(|a, b| a.tokens_per_second().total_cmp(&b.tokens_per_second()))
    }

    /// All, by rising widths.
    pub fn all(&self) -> &[Speed] {
        &self.0
    }
}

impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.plain().tokens_per_second();
        writeln!(f, "{:>5} {:>9} {:>8} {:>7} {:>8}", "width", "per cycle", "ms", "tok/s", "to plain")?;
        for speed in &self.0 {
            let Speed { width, tokens_per_cycle, cycle_s } = *speed;
            let (ms, rate) = (1e3 * cycle_s, speed.tokens_per_second());
            let best = if self.best() == Some(*speed) { "  best" } else { "" };
            writeln!(
                f,
                "{width:>5} {tokens_per_cycle:>9.3} {ms:>8.2} {rate:>7.1} {:>8.2}{best}",
                rate / plain
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dflash_engine::Curve;

    use super::*;

    #[test]
    fn the_best_width_is_the_fastest_under_the_costs() {
        let costs = StepCosts {
            verify: Curve::new(vec![(1, 0.010), (4, 0.016)]),
            propose: vec![Some(Curve::new(vec![(2, 0.001), (4, 0.003)]))],
        };
        let speeds = Speeds::new(&[0.8, 0.5, 0.1], &costs);
        assert_eq!(speeds.plain().tokens_per_second(), 100.0);
        let best = speeds.best().unwrap();
        assert_eq!(best.width, 3);
        assert!((best.tokens_per_cycle - 2.3).abs() < 1e-12 && (best.cycle_s - 0.016).abs() < 1e-12);
        assert_eq!(speeds.all().iter().map(|speed| speed.width).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let told = speeds.to_string();
        assert!(told.contains("    3     2.300    16.00   143.8     1.44  best"), "{told}");
        assert_eq!(Speeds::new(&[], &costs).best(), None);
    }
}
