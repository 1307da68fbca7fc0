//! How fast this machine could be: what it reads and what it multiplies in a second at best.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::work::{Arithmetic, PerArithmetic, Work};
use crate::{CpuBackend, ceiling};

/// How long a loop is repeated; the best repetition counts.
const TIME: Duration = Duration::from_millis(60);

/// A repetition takes at least this long, beside which starting the threads is nothing.
const REPETITION: f64 = 1e-3;

/// What all threads together do in a second at best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Bytes read from memory.
    pub bytes: f64,
    /// Multiply-adds, with operands in registers and the instructions of the kernels in use.
    pub multiply_adds: PerArithmetic<f64>,
}

impl Ceilings {
    /// Seconds that `work` takes at least: reading and multiplying at the same time, arithmetics in turn.
    pub fn floor(&self, work: &Work) -> f64 {
        let seconds = |arithmetic| work.multiply_adds[arithmetic] as f64 / self.multiply_adds[arithmetic];
        let multiplying: f64 = Arithmetic::ALL.into_iter().map(seconds).sum();
        multiplying.max(work.bytes as f64 / self.bytes)
    }

    /// The larger ones of two measurements: a shared machine may have been slow in one of them.
    pub fn larger(&self, other: &Self) -> Self {
        let larger = |arithmetic| f64::max(self.multiply_adds[arithmetic], other.multiply_adds[arithmetic]);
        Self { bytes: self.bytes.max(other.bytes), multiply_adds: PerArithmetic::of(larger) }
    }
}

impl CpuBackend {
    /// Measures the ceilings of this machine for the threads and kernels of this backend, in half a second.
    pub fn ceilings(&self) -> Ceilings {
        let multiply_adds = PerArithmetic::of(|arithmetic| self.multiply_add_rate(arithmetic));
        Ceilings { bytes: self.read_bandwidth(), multiply_adds }
    }

    /// Multiply-adds per second of all threads together.
    fn multiply_add_rate(&self, arithmetic: Arithmetic) -> f64 {
        let round = f64::from(ceiling::run(self.isa, arithmetic, 1));
        let (mut rounds, mut best, begin) = (64, 0.0_f64, Instant::now());
        while begin.elapsed() < TIME {
            let seconds = self.loop_seconds(arithmetic, rounds);
            best = best.max(self.threads() as f64 * rounds as f64 * round / seconds);
            if seconds < REPETITION {
                rounds *= 2;
            }
        }
        best
    }

    /// Seconds in which every thread runs so many rounds.
    fn loop_seconds(&self, arithmetic: Arithmetic, rounds: usize) -> f64 {
        let begin = Instant::now();
        self.pool.split(self.threads(), &|_, piece| {
            piece.for_each(|_| _ = black_box(ceiling::run(self.isa, arithmetic, rounds)));
        });
        begin.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(bytes: f64, multiply_adds: [f64; 4]) -> Ceilings {
        Ceilings { bytes, multiply_adds: PerArithmetic(multiply_adds) }
    }

    fn work(bytes: u64, multiply_adds: [u64; 4]) -> Work {
        Work { bytes, multiply_adds: PerArithmetic(multiply_adds) }
    }

    #[test]
    fn the_floor_is_the_longer_of_reading_and_of_all_multiplying() {
        let ceilings = ceilings(100.0, [10.0, 20.0, 40.0, 50.0]);
        assert_eq!(ceilings.floor(&work(300, [0, 0, 0, 0])), 3.0);
        assert_eq!(ceilings.floor(&work(300, [10, 20, 20, 50])), 3.5);
        assert_eq!(ceilings.floor(&work(400, [10, 20, 20, 50])), 4.0);
        assert_eq!(ceilings.floor(&Work::default()), 0.0);
    }

    #[test]
    fn of_two_measurements_the_larger_numbers_count() {
        let (a, b) = (ceilings(100.0, [10.0, 5.0, 1.0, 2.0]), ceilings(90.0, [11.0, 4.0, 3.0, 2.0]));
        assert_eq!(a.larger(&b), ceilings(100.0, [11.0, 5.0, 3.0, 2.0]));
        assert_eq!(b.larger(&a), a.larger(&b));
    }
}
