//! Random bytes of tensors, many at a time.

use std::io::{self, Write};

/// How the bytes of a tensor come about.
#[derive(Debug, Clone)]
pub enum Fill {
    /// Every byte is random.
    Bytes,
    /// bfloat16 from this power of two up to twice it.
    Bf16(f32),
    /// bfloat16 of one value.
    Same(f32),
    /// bfloat16 of both signs, up to this power of two and twice it.
    Signed(f32),
    /// `Q4_K` blocks with weights of about this deviation around zero.
    Q4K(f32),
    /// f32 from the first to the second.
    F32(f32, f32),
}

const PIECE: usize = 8 << 20;

impl Fill {
    /// Writes `bytes` bytes; `seed` names them.
    pub fn write(&self, out: &mut impl Write, bytes: usize, seed: u64) -> io::Result<()> {
        // A piece holds whole blocks.
        let piece = PIECE / 144 * 144;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut buffers = vec![Vec::new(); threads];
        for first in (0..bytes).step_by(piece * threads) {
            std::thread::scope(|scope| {
                for (index, buffer) in buffers.iter_mut().enumerate() {
                    let start = first + index * piece;
                    buffer.resize(bytes.saturating_sub(start).min(piece), 0);
                    scope.spawn(move || self.piece(buffer, seed.wrapping_add(start as u64)));
                }
            });
            buffers.iter().try_for_each(|buffer| out.write_all(buffer))?;
        }
        Ok(())
    }

    fn piece(&self, bytes: &mut [u8], seed: u64) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        match *self {
            Self::Bytes => random.bytes(bytes),
            Self::Same(value) => each(bytes, || bf16(value)),
            Self::Bf16(low) => each(bytes, || bf16(low) | random.next() as u16 & 0x7f),
            Self::Signed(low) => each(bytes, || bf16(low) | random.next() as u16 & 0x807f),
            Self::F32(low, high) => {
                for chunk in bytes.chunks_exact_mut(4) {
                    let part = (random.next() >> 40) as f32 / (1u64 << 24) as f32;
                    chunk.copy_from_slice(&(low + part * (high - low)).to_le_bytes());
                }
            }
            Self::Q4K(deviation) => {
                random.bytes(bytes);
                // Random 6-bit scales and 4-bit elements have a deviation of 258 units and a mean of 7.5 minima.
                let unit = deviation / 258.0;
                for block in bytes.chunks_exact_mut(144) {
                    block[..2].copy_from_slice(&f16(unit).to_le_bytes());
                    block[2..4].copy_from_slice(&f16(7.5 * unit).to_le_bytes());
                }
            }
        }
    }
}

fn each(bytes: &mut [u8], mut next: impl FnMut() -> u16) {
    bytes.chunks_exact_mut(2).for_each(|chunk| chunk.copy_from_slice(&next().to_le_bytes()));
}

fn bf16(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

/// Of a small positive value, rounded towards zero.
fn f16(value: f32) -> u16 {
    let exponent = (value.to_bits() >> 23) as i32 - 127;
    match exponent < -14 {
        true => (value * (1u32 << 24) as f32) as u16,
        false => ((exponent + 15) as u16) << 10 | (value.to_bits() >> 13 & 0x3ff) as u16,
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}
