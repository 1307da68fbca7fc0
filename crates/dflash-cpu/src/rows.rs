//! Row-wise work before a product.

use std::cell::RefCell;

use crate::Isa;
use crate::quantize::{QuantBlock, WideBlock, quantize};

/// Lanes of a sum of squares.
const LANES: usize = 16;

thread_local! {
    /// A row between its norm and the sum.
    static NORMALISED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Gain and epsilon of an RMS norm.
pub(crate) type Norm<'a> = (&'a [f32], f32);

/// Where the forms of a row go; what nobody reads is empty, but a norm needs `values`.
pub(crate) struct Prepared<'a> {
    /// The row, normalised.
    pub(crate) values: &'a mut [f32],
    /// Quantised.
    pub(crate) blocks: &'a mut [QuantBlock],
    /// Quantised, in sixteen bits.
    pub(crate) wide: &'a mut [WideBlock],
}

impl Prepared<'_> {
    /// Whether nobody reads any form.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.blocks.is_empty() && self.wide.is_empty()
    }

    /// The same forms of the same row as `other`.
    pub(crate) fn copy_from(&mut self, other: &Prepared<'_>) {
        self.values.copy_from_slice(other.values);
        self.blocks.copy_from_slice(other.blocks);
        self.wide.copy_from_slice(other.wide);
    }

    /// For a call that takes it.
    pub(crate) fn reborrow(&mut self) -> Prepared<'_> {
        Prepared { values: self.values, blocks: self.blocks, wide: self.wide }
    }
}

/// Prepares one row.
pub(crate) fn prepare(isa: Isa, x: &[f32], norm: Option<Norm<'_>>, out: Prepared<'_>) {
    let Prepared { values, blocks, wide } = out;
    match norm {
        Some(norm) => rms_norm(isa, x, norm, values),
        None if values.is_empty() => return quantize_row(isa, x, blocks, wide),
        None => values.copy_from_slice(x),
    }
    quantize_row(isa, values, blocks, wide);
}

/// `out = x / sqrt(mean(x^2) + eps) * gain`.
pub(crate) fn rms_norm(isa: Isa, x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    match isa {
        Isa::Scalar => normalize(x, norm, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::rms_norm(x, norm, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

/// `out = out + x / sqrt(mean(x^2) + eps) * gain`.
pub(crate) fn add_normalised(isa: Isa, x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    NORMALISED.with_borrow_mut(|values| {
        values.resize(x.len(), 0.0);
        rms_norm(isa, x, norm, values);
        out.iter_mut().zip(&*values).for_each(|(out, x)| *out += x);
    });
}

fn quantize_row(isa: Isa, x: &[f32], blocks: &mut [QuantBlock], wide: &mut [WideBlock]) {
    let x = x.as_chunks().0;
    match isa {
        Isa::Scalar => {
            blocks.iter_mut().zip(x).for_each(|(block, x)| *block = quantize(x));
            wide.iter_mut().zip(x).for_each(|(block, x)| *block = WideBlock::of(&quantize(x)));
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::quantize(x, blocks, wide),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

/// The body of [`rms_norm`], over arrays of fixed lanes and compiled for every instruction set.
#[inline(always)]
pub(crate) fn normalize(x: &[f32], (gain, eps): Norm<'_>, out: &mut [f32]) {
    let mean = sum_of_squares(x) / x.len() as f32;
    let inverse = 1.0 / (mean + eps).sqrt();
    for ((out, x), gain) in out.iter_mut().zip(x).zip(gain) {
        *out = x * inverse * gain;
    }
}

/// The one order of a sum of squares, whatever its length.
#[inline(always)]
pub(crate) fn sum_of_squares(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = x.mul_add(*x, *lane);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = x.mul_add(*x, *lane);
    }
    sum(&lanes)
}

/// The one order in which lanes are summed.
#[inline(always)]
pub(crate) fn sum(lanes: &[f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
    let [a, b, c, d, e, f, g, h] = eight;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
