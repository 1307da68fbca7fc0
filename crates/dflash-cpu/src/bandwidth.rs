use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::CpuBackend;
use crate::memory::Memory;

/// Bytes read per pass: beyond the caches of common machines, and written first, so that no page is missing and
/// none is the one page of zeros.
const BYTES: usize = 128 << 20;

/// How long reading is repeated; the best pass counts, as the machine may be shared.
const TIME: Duration = Duration::from_millis(250);

impl CpuBackend {
    /// Bytes per second that all threads together read from memory, in a fraction of a second.
    pub fn read_bandwidth(&self) -> f64 {
        let mut bytes = Memory::default().zeroed(BYTES);
        bytes.fill(1);
        let words = bytemuck::cast_slice(&bytes);
        let begin = Instant::now();
        let mut best = f64::INFINITY;
        while begin.elapsed() < TIME {
            best = best.min(self.read_once(words));
        }
        BYTES as f64 / best
    }

    fn read_once(&self, words: &[u64]) -> f64 {
        let begin = Instant::now();
        self.pool.split(words.len(), &|_, piece| {
            black_box(words[piece].iter().fold(0_u64, |all, word| all ^ word));
        });
        begin.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn a_machine_reads_something() {
        assert!(CpuBackend::new(1, Isa::Scalar).read_bandwidth() > 1e6);
    }
}
