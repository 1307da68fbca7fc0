//! Test data: a small generator, tensors made of rows, comparison.

use crate::{Backend, Tensor};

/// A generator of numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Evenly in -1..1.
    pub(super) fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.uniform() * 2.0).collect()
    }

    /// `0..count` in random order.
    pub(super) fn order(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        (1..count).rev().for_each(|i| order.swap(i, self.below(i + 1)));
        order
    }

    /// Lengths of 1..=`longest` that add up to `count`.
    pub(super) fn split(&mut self, count: usize, longest: usize) -> Vec<usize> {
        let (mut lengths, mut left) = (Vec::new(), count);
        while left > 0 {
            let length = (1 + self.below(longest)).min(left);
            lengths.push(length);
            left -= length;
        }
        lengths
    }
}

/// A tensor that holds `data`, with some rows to spare.
pub(super) fn filled(backend: &dyn Backend, cols: usize, data: &[f32]) -> Tensor {
    let rows = data.len() / cols;
    let mut tensor = backend.tensor(rows + 2, cols);
    tensor.set_rows(rows);
    backend.write(&mut tensor, 0, data);
    tensor
}

/// All rows in use, one after the other.
pub(super) fn all(backend: &dyn Backend, tensor: &Tensor) -> Vec<f32> {
    (0..tensor.rows()).flat_map(|row| backend.read(tensor, row)).collect()
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(super) fn assert_bits(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: elements");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}: element {index}: {a} is not {b}");
    }
}

/// A number with the error that its computation may have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exact {
    pub(super) value: f64,
    pub(super) error: f64,
}

pub(super) fn assert_close(found: &[f32], expected: &[Exact], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: elements");
    for (index, (&a, b)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(a) - b.value).abs();
        assert!(
            off <= b.error,
            "{what}: element {index}: {a} is {off:e} off {} (allowed {:e})",
            b.value,
            b.error
        );
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` of one row.
pub(super) fn normalised(x: &[f64], weight: &[f32], eps: f32) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let root = (mean + f64::from(eps)).sqrt();
    x.iter().zip(weight).map(|(x, &weight)| x / root * f64::from(weight)).collect()
}

pub(super) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}
