//! Products of matrices in bf16 with sums in f32, on processors that multiply such pairs (`avx512_bf16`): twice as many
//! products a second as in f32.
//!
//! Both matrices are rounded and packed into panels whose values lie as the kernel reads them; it keeps a tile of the
//! result in registers while it goes through all columns of `a`. Every number of the result is summed in one order,
//! whatever the number of threads.

use rayon::prelude::*;

use super::product::View;

/// Rows of a tile.
const ROWS: usize = 12;
/// Columns of a tile: two registers.
const COLS: usize = 32;
/// Panels of `a` that stay in the second cache while those of `b` pass.
const KEPT: usize = 8;

/// Whether this processor has what the kernel needs.
pub fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// `a * b`, row after row, on all threads. Both are rounded to bf16, to the nearest and to even; sums are in f32.
///
/// # Panics
/// When the shapes do not fit, or where it is not supported.
pub fn product(a: View<'_>, b: View<'_>) -> Vec<f32> {
    let ((rows, inner), (inner_too, cols)) = (a.shape(), b.shape());
    assert!(inner == inner_too, "shapes of a product");
    assert!(is_supported(), "products in bf16 on this processor");
    let mut out = vec![0.0; rows * cols];
    if out.is_empty() {
        return out;
    }
    let (a, b) = (Panels::new::<ROWS>(a), Panels::new::<COLS>(b.t()));
    let panels = rows.div_ceil(ROWS);
    let threads = rayon::current_num_threads();
    let kept = panels.div_ceil(threads * panels.div_ceil(threads * KEPT));
    out.par_chunks_mut(kept * ROWS * cols).enumerate().for_each(|(index, out)| {
        for (number, b) in b.iter().enumerate() {
            for (a, out) in a.iter().skip(index * kept).zip(out.chunks_mut(ROWS * cols)) {
                tile(a, b, out, cols, number * COLS);
            }
        }
    });
    out
}

/// A matrix in panels of so many of its rows: for each pair of columns, the pair of each row; zeros fill up.
struct Panels {
    pairs: Vec<u32>,
    /// Of a panel.
    len: usize,
}

impl Panels {
    fn new<const PANEL: usize>(matrix: View<'_>) -> Self {
        let (rows, cols) = matrix.shape();
        let len = PANEL * cols.div_ceil(2);
        let mut pairs = vec![0; rows.div_ceil(PANEL) * len];
        if len > 0 {
            pairs.par_chunks_mut(len).enumerate().for_each(|(index, panel)| {
                let first = index * PANEL;
                pack::<PANEL>(matrix, first..rows.min(first + PANEL), panel);
            });
        }
        Self { pairs, len }
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.pairs.chunks(self.len.max(1))
    }
}

/// Packs these rows.
fn pack<const PANEL: usize>(matrix: View<'_>, rows: std::ops::Range<usize>, panel: &mut [u32]) {
    let (_, cols) = matrix.shape();
    let pairs = panel.as_chunks_mut::<PANEL>().0;
    if matrix.is_by_columns() {
        for (pair, col) in pairs.iter_mut().zip((0..cols).step_by(2)) {
            let low = matrix.column(col, rows.clone());
            if col + 1 < cols {
                let values = low.iter().zip(matrix.column(col + 1, rows.clone()));
                pair.iter_mut().zip(values).for_each(|(pair, (&low, &high))| *pair = joined(low, high));
            } else {
                pair.iter_mut().zip(low).for_each(|(pair, &low)| *pair = joined(low, 0.0));
            }
        }
    } else {
        for (place, row) in rows.enumerate() {
            let (values, rest) = matrix.row(row).as_chunks::<2>();
            pairs.iter_mut().zip(values).for_each(|(pair, &[low, high])| pair[place] = joined(low, high));
            if let (&[last], Some(pair)) = (rest, pairs.last_mut()) {
                pair[place] = joined(last, 0.0);
            }
        }
    }
}

/// Two numbers in bf16, the first in the low half. What is no number stays none.
fn joined(low: f32, high: f32) -> u32 {
    rounded(low) >> 16 | rounded(high) & 0xffff_0000
}

/// To the nearest number of bf16, in the upper half; below it are remains.
fn rounded(value: f32) -> u32 {
    let bits = value.to_bits();
    bits.wrapping_add(0x7fff + (bits >> 16 & 1))
}

/// A tile of the result, whose rows are `cols` long in `out`, from column `first` on.
#[cfg(target_arch = "x86_64")]
fn tile(a: &[u32], b: &[u32], out: &mut [f32], cols: usize, first: usize) {
    let (a, b) = (a.as_chunks::<ROWS>().0, b.as_chunks::<COLS>().0);
    // SAFETY: `product` asserts that the processor has these instructions.
    let sums = unsafe { x86::tile(a, b) };
    for (row, sums) in out.chunks_mut(cols).zip(&sums) {
        let row = &mut row[first..cols.min(first + COLS)];
        row.copy_from_slice(&sums[..row.len()]);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn tile(_: &[u32], _: &[u32], _: &mut [f32], _: usize, _: usize) {
    unreachable!("not supported");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;

    use super::{COLS, ROWS};

    /// The sums of a tile.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn tile(a: &[[u32; ROWS]], b: &[[u32; COLS]]) -> [[f32; COLS]; ROWS] {
        let mut sums: [[__m512; 2]; ROWS] = [[_mm512_setzero_ps(); 2]; ROWS];
        for (a, b) in a.iter().zip(b) {
            // SAFETY: both halves lie within the array.
            let (left, right) = unsafe { (load(b.as_ptr()), load(b.as_ptr().add(COLS / 2))) };
            for (sums, &pair) in sums.iter_mut().zip(a) {
                let pair = halves(_mm512_set1_epi32(pair.cast_signed()));
                sums[0] = _mm512_dpbf16_ps(sums[0], pair, left);
                sums[1] = _mm512_dpbf16_ps(sums[1], pair, right);
            }
        }
        let mut out = [[0.0; COLS]; ROWS];
        for (out, sums) in out.iter_mut().zip(&sums) {
            // SAFETY: both halves lie within the row.
            unsafe {
                _mm512_storeu_ps(out.as_mut_ptr(), sums[0]);
                _mm512_storeu_ps(out.as_mut_ptr().add(COLS / 2), sums[1]);
            }
        }
        out
    }

    /// # Safety
    /// Sixteen values lie there.
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn load(values: *const u32) -> __m512bh {
        // SAFETY: as above; the instruction wants no alignment.
        halves(unsafe { _mm512_loadu_si512(values.cast()) })
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn halves(bits: __m512i) -> __m512bh {
        // SAFETY: both are 64 bytes that may hold anything.
        unsafe { transmute(bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_to_even() {
        let as_half = |value: f32| f32::from_bits(rounded(value) & 0xffff_0000);
        for value in values(1000, 3).into_iter().chain([0.0, -0.0, 1.003_906_2, 1.011_718_8, f32::INFINITY]) {
            assert_eq!(as_half(value), half::bf16::from_f32(value).to_f32(), "{value}");
        }
        assert!(as_half(f32::NAN).is_nan());
    }

    #[test]
    fn it_is_the_product_of_the_rounded_matrices() {
        if !is_supported() {
            return;
        }
        let round = |values: Vec<f32>| -> Vec<f32> {
            values.into_iter().map(|value| half::bf16::from_f32(value).to_f32()).collect()
        };
        for (rows, inner, cols) in [(1, 1, 1), (12, 2, 32), (13, 3, 33), (201, 77, 65), (30, 64, 7)] {
            let (a, b) = (values(rows * inner, 1), values(inner * cols, 2));
            let (a_t, b_t) = (transposed(&a, inner), transposed(&b, cols));
            let (a_round, b_round) = (round(a.clone()), round(b.clone()));
            let wanted: Vec<f64> = (0..rows * cols)
                .map(|place| {
                    let (row, col) = (place / cols, place % cols);
                    let products = (0..inner)
                        .map(|k| f64::from(a_round[row * inner + k]) * f64::from(b_round[k * cols + col]));
                    products.sum()
                })
                .collect();
            let view = |values, rows, cols| View::new(values, cols).first(rows);
            let (a, b) = (view(&a, rows, inner), view(&b, inner, cols));
            let (a_t, b_t) = (view(&a_t, inner, rows).t(), view(&b_t, cols, inner).t());
            let got = product(a, b);
            for (got, wanted) in got.iter().zip(&wanted) {
                assert!((f64::from(*got) - wanted).abs() < 1e-4, "{got} {wanted}");
            }
            for other in [product(a_t, b), product(a, b_t), product(a_t, b_t)] {
                assert_eq!(got, other);
            }
        }
    }

    fn transposed(values: &[f32], cols: usize) -> Vec<f32> {
        (0..values.len())
            .map(|place| {
                let rows = values.len() / cols;
                values[place % rows * cols + place / rows]
            })
            .collect()
    }
}
