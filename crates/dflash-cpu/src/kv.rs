//! Keys and values of 64 positions in half precision.

use std::any::Any;

use dflash_tensor::{BLOCK_POSITIONS, KvGeometry, KvStore};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// A block: per head the keys transposed `[dim][64]`, so that scores have one key per lane, followed by the
/// values `[64][dim]`, so that a head is read from one place.
///
/// Numbers are rounded to nearest, ties to even, as IEEE 754 says: beyond the range of f16 they become
/// infinite, so that a model that overflows fails with NaN logits instead of answering wrongly.
#[derive(Clone)]
pub(crate) struct KvBlock {
    geometry: KvGeometry,
    heads: Vec<f16>,
}

/// An empty block.
pub(crate) fn new_block(geometry: KvGeometry) -> Box<dyn KvStore> {
    Box::new(KvBlock::new(geometry))
}

impl KvBlock {
    /// A block of zeros.
    pub(crate) fn new(geometry: KvGeometry) -> Self {
        Self { geometry, heads: vec![f16::ZERO; 2 * geometry.heads * geometry.dim * BLOCK_POSITIONS] }
    }

    /// The block behind the seam's trait.
    pub(crate) fn of(store: &dyn KvStore) -> &Self {
        store.as_any().downcast_ref().expect("a block of this backend")
    }

    /// The block behind the seam's trait, for writing.
    pub(crate) fn of_mut(store: &mut dyn KvStore) -> &mut Self {
        store.as_any_mut().downcast_mut().expect("a block of this backend")
    }

    /// Numbers of the keys of a head, and of its values.
    fn part(&self) -> usize {
        self.geometry.dim * BLOCK_POSITIONS
    }

    /// Keys `[dim][64]` of a head.
    pub(crate) fn keys(&self, head: usize) -> &[f16] {
        &self.heads[2 * head * self.part()..][..self.part()]
    }

    /// Values `[64][dim]` of a head.
    pub(crate) fn values(&self, head: usize) -> &[f16] {
        &self.heads[(2 * head + 1) * self.part()..][..self.part()]
    }

    /// Keys and values of a head for writing.
    pub(crate) fn head_mut(&mut self, head: usize) -> (&mut [f16], &mut [f16]) {
        let part = self.part();
        self.heads[2 * head * part..][..2 * part].split_at_mut(part)
    }

    /// Writes the row `[heads * dim]` of keys and of values into `slot`.
    pub(crate) fn write(&mut self, slot: usize, keys: &[f32], values: &[f32]) {
        let KvGeometry { heads, dim } = self.geometry;
        assert!(slot < BLOCK_POSITIONS, "slot {slot} of a block");
        assert!(keys.len() == heads * dim && values.len() == heads * dim, "a row of the layer");
        let rows = keys.chunks_exact(dim).zip(values.chunks_exact(dim));
        for (head, (key_row, value_row)) in rows.enumerate() {
            let (keys, values) = self.head_mut(head);
            values[slot * dim..][..dim].convert_from_f32_slice(value_row);
            let mut rounded = [f16::ZERO; 64];
            for (part, row) in keys.chunks_mut(64 * BLOCK_POSITIONS).zip(key_row.chunks(64)) {
                let rounded = &mut rounded[..row.len()];
                rounded.convert_from_f32_slice(row);
                let lanes = part[slot..].iter_mut().step_by(BLOCK_POSITIONS);
                lanes.zip(rounded).for_each(|(lane, &mut key)| *lane = key);
            }
        }
    }
}

impl KvStore for KvBlock {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn copy(&self) -> Box<dyn KvStore> {
        Box::new(self.clone())
    }

    fn copy_row(&mut self, slot: usize, source: &dyn KvStore, source_slot: usize) {
        let source = Self::of(source);
        assert_eq!(self.geometry, source.geometry, "blocks of one layer");
        for head in 0..self.geometry.heads {
            let (keys, values) = self.head_mut(head);
            copy_slot(keys, values, slot, source.keys(head), source.values(head), source_slot);
        }
    }

    fn bytes(&self) -> usize {
        2 * self.heads.len()
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(bytemuck::cast_slice(&self.heads));
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() == self.bytes();
        if fits {
            bytemuck::cast_slice_mut(&mut self.heads).copy_from_slice(bytes);
        }
        fits
    }
}

/// Copies one position of one head.
pub(crate) fn copy_slot(
    keys: &mut [f16],
    values: &mut [f16],
    slot: usize,
    source_keys: &[f16],
    source_values: &[f16],
    source_slot: usize,
) {
    let dim = keys.len() / BLOCK_POSITIONS;
    let lanes = keys.chunks_exact_mut(BLOCK_POSITIONS).zip(source_keys.chunks_exact(BLOCK_POSITIONS));
    lanes.for_each(|(lanes, source)| lanes[slot] = source[source_slot]);
    values[slot * dim..][..dim].copy_from_slice(&source_values[source_slot * dim..][..dim]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: KvGeometry = KvGeometry { heads: 3, dim: 72 };

    fn row(seed: usize) -> Vec<f32> {
        (0..GEOMETRY.heads * GEOMETRY.dim).map(|i| ((i * 31 + seed * 17) % 97) as f32 - 48.0).collect()
    }

    /// The f16 next to `x`, ties to even, by search instead of arithmetic on bits.
    fn nearest(x: f32) -> u16 {
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        let size = f64::from(x.abs());
        let value = |bits: u16| if bits == 0x7c00 { 65536.0 } else { f16::from_bits(bits).to_f64() };
        let (mut low, mut high) = (0_u16, 0x7c00_u16);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if value(middle) <= size { low = middle } else { high = middle }
        }
        if size >= value(high) {
            return sign | high;
        }
        let (below, above) = (size - value(low), value(high) - size);
        let up = above < below || above == below && low % 2 == 1;
        sign | if up { high } else { low }
    }

    #[test]
    fn numbers_are_rounded_to_nearest_even() {
        let geometry = KvGeometry { heads: 1, dim: 1 };
        let mut block = KvBlock::new(geometry);
        let edges =
            [65504.0, 65519.99, 65520.0, 1e9, 6e-8, 3e-8, 2.98e-8, 2.980_232_2e-8, 1e-12, 6.1e-5, 0.0];
        let ties = [2049.0, 2051.0, 1.000_488_3, 1.001_464_8];
        let sweep = (0..0x7f80_0000_u32).step_by(50_021).map(f32::from_bits);
        for x in edges.into_iter().chain(ties).chain(sweep).flat_map(|x| [x, -x]) {
            block.write(5, &[x], &[x]);
            assert_eq!(block.keys(0)[5].to_bits(), nearest(x), "{x}");
            assert_eq!(block.values(0)[5].to_bits(), nearest(x), "{x}");
        }
        block.write(5, &[f32::INFINITY], &[f32::NAN]);
        assert!(block.keys(0)[5].is_infinite() && block.values(0)[5].is_nan());
    }

    #[test]
    fn rows_stand_where_they_are_read() {
        let mut block = KvBlock::new(GEOMETRY);
        (0..64).for_each(|slot| block.write(slot, &row(slot), &row(slot + 100)));
        for (slot, head, d) in [(0, 0, 0), (63, 2, 71), (17, 1, 30)] {
            let index = head * GEOMETRY.dim + d;
            assert_eq!(block.keys(head)[d * 64 + slot].to_f32(), row(slot)[index]);
            assert_eq!(block.values(head)[slot * GEOMETRY.dim + d].to_f32(), row(slot + 100)[index]);
        }
        assert_eq!(block.bytes(), 2 * 2 * 3 * 72 * 64);
    }

    #[test]
    fn a_row_is_copied_between_blocks() {
        let (mut source, mut target) = (KvBlock::new(GEOMETRY), KvBlock::new(GEOMETRY));
        source.write(7, &row(1), &row(2));
        target.write(9, &row(3), &row(4));
        target.copy_row(8, &source, 7);
        let mut expected = KvBlock::new(GEOMETRY);
        expected.write(8, &row(1), &row(2));
        expected.write(9, &row(3), &row(4));
        assert!(expected.heads == target.heads);
    }
}
