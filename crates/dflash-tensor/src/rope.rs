use std::sync::OnceLock;

use crate::BLOCK_POSITIONS;

/// How the inverse frequencies of a rotary embedding are stretched for contexts beyond the trained one.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// None.
    Default,
    /// All frequencies divided by `factor`.
    Linear {
        /// Divisor.
        factor: f32,
    },
    /// Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between.
    Llama3 {
        /// Divisor of long wavelengths.
        factor: f32,
        /// Wavelengths above `original_context / low_freq_factor` are long.
        low_freq_factor: f32,
        /// Wavelengths below `original_context / high_freq_factor` are short.
        high_freq_factor: f32,
        /// Context the model was trained with.
        original_context: f32,
    },
    /// YaRN (arXiv 2309.00071).
    Yarn {
        /// Context extension.
        factor: f32,
        /// Rotations above which a pair keeps its frequency.
        beta_fast: f32,
        /// Rotations below which a pair is interpolated.
        beta_slow: f32,
        /// Context the model was trained with.
        original_context: f32,
        /// Multiplies rotated queries and keys.
        attention_factor: f32,
    },
    /// Explicit divisors per pair (GGUF `rope_freqs`).
    Factors(Vec<f32>),
    /// Gemma 4: the first `rotated` pairs turn, the others stand still; all divided by `factor`.
    Proportional {
        /// Pairs that turn.
        rotated: usize,
        /// Divisor.
        factor: f32,
    },
}

/// Rotate-half rotary embedding: with `d` rotary dimensions the pair `(x[i], x[i+d/2])` turns by
/// `position * inv_freq[i]`; dimensions from `d` on pass through.
pub struct Rope {
    base: f32,
    inv_freq: Vec<f32>,
    factor: f32,
    /// Tables of `[position][cos | sin]`, one per block of positions, made when first needed.
    blocks: Vec<OnceLock<Box<[f32]>>>,
}

impl Rope {
    /// For `dims` rotary dimensions (even) and positions below `max_positions`.
    ///
    /// # Panics
    /// When `dims` is odd, or explicit factors have another length than `dims / 2`.
    pub fn new(dims: usize, base: f32, scaling: &RopeScaling, max_positions: usize) -> Self {
        assert!(dims.is_multiple_of(2), "rotary dimensions come in pairs");
        let plain: Vec<f64> =
            (0..dims / 2).map(|i| f64::from(base).powf(-(2.0 * i as f64) / dims as f64)).collect();
        let inv_freq = scaled(&plain, base, scaling);
        let factor = match scaling {
            RopeScaling::Yarn { attention_factor, .. } => *attention_factor,
            _ => 1.0,
        };
        let blocks = (0..max_positions.div_ceil(BLOCK_POSITIONS)).map(|_| OnceLock::new()).collect();
        Self { base, inv_freq, factor, blocks }
    }

    /// Base of the frequencies, before they are stretched.
    pub fn base(&self) -> f32 {
        self.base
    }

    /// Rotary dimensions.
    pub fn dims(&self) -> usize {
        self.inv_freq.len() * 2
    }

    /// Positions that have a table.
    pub fn max_positions(&self) -> usize {
        self.blocks.len() * BLOCK_POSITIONS
    }

    /// Cosines and sines `[dims/2]` at `position`, with the attention factor in.
    ///
    /// # Panics
    /// When the position is not below `max_positions`.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.inv_freq.len();
        let index = position / BLOCK_POSITIONS;
        let table = self.blocks[index].get_or_init(|| self.block(index));
        let row = &table[position % BLOCK_POSITIONS * 2 * half..][..2 * half];
        row.split_at(half)
    }

    fn block(&self, index: usize) -> Box<[f32]> {
        let mut table = Vec::with_capacity(BLOCK_POSITIONS * self.dims());
        for position in index * BLOCK_POSITIONS..(index + 1) * BLOCK_POSITIONS {
            // The angle is rounded to f32 as in the models' own code, only its cosine is taken in f64.
            let angle = |freq: &f32| f64::from(position as f32 * freq);
            table.extend(self.inv_freq.iter().map(|f| angle(f).cos() as f32 * self.factor));
            table.extend(self.inv_freq.iter().map(|f| angle(f).sin() as f32 * self.factor));
        }
        table.into_boxed_slice()
    }
}

fn scaled(plain: &[f64], base: f32, scaling: &RopeScaling) -> Vec<f32> {
    let tau = std::f64::consts::TAU;
    let one = |i: usize, freq: f64| match scaling {
        RopeScaling::Default => freq,
        RopeScaling::Linear { factor } => freq / f64::from(*factor),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let (factor, original) = (f64::from(*factor), f64::from(*original_context));
            let (low, high) = (f64::from(*low_freq_factor), f64::from(*high_freq_factor));
            let wavelength = tau / freq;
            if wavelength > original / low {
                freq / factor
            } else if wavelength < original / high {
                freq
            } else {
                let smooth = (original / wavelength - low) / (high - low);
                (1.0 - smooth) * freq / factor + smooth * freq
            }
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, .. } => {
            let dims = 2.0 * plain.len() as f64;
            let dim = |rotations: f32| {
                dims * (f64::from(*original_context) / (tau * f64::from(rotations))).ln()
                    / (2.0 * f64::from(base).ln())
            };
            let low = dim(*beta_fast).floor().clamp(0.0, dims - 1.0);
            let mut high = dim(*beta_slow).ceil().clamp(0.0, dims - 1.0);
            if high == low {
                high += 0.001;
            }
            let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
            freq * (1.0 - ramp) + freq / f64::from(*factor) * ramp
        }
        RopeScaling::Proportional { rotated, factor } => match i < *rotated {
            true => freq / f64::from(*factor),
            false => 0.0,
        },
        RopeScaling::Factors(factors) => {
            assert_eq!(factors.len(), plain.len(), "one factor per rotary pair");
            freq / f64::from(factors[i])
        }
    };
    plain.iter().enumerate().map(|(i, &freq)| one(i, freq) as f32).collect()
}
