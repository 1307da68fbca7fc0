//! Super-blocks of GGUF: from the file's order into units.
//!
//! A block of 32 elements takes some bits of each of 32 consecutive bytes, and of 32 more for wider elements.

use super::{BLOCK, planes};

/// Bits of 32 consecutive bytes: shifted right by `from`, masked, moved left by `to`.
#[derive(Clone, Copy)]
struct Piece<'a> {
    bytes: &'a [u8],
    from: usize,
    mask: u8,
    to: usize,
}

impl<'a> Piece<'a> {
    fn new(bytes: &'a [u8], first: usize, from: usize, mask: u8, to: usize) -> Self {
        Self { bytes: &bytes[first..][..BLOCK], from, mask, to }
    }

    fn get(self, i: usize) -> u8 {
        (self.bytes[i] >> self.from & self.mask) << self.to
    }
}

/// Writes a unit: `head`, then the blocks with two bytes of factors each.
#[inline(always)]
fn write<'a>(
    bits: u8,
    unit: &mut [u8],
    head: &[u8],
    factors: impl Fn(usize) -> [u8; 2],
    pieces: impl Fn(usize) -> [Piece<'a>; 2],
) {
    let (unit_head, blocks) = unit.split_at_mut(head.len());
    unit_head.copy_from_slice(head);
    for (block, target) in blocks.chunks_exact_mut(2 + 4 * usize::from(bits)).enumerate() {
        let (target_factors, target) = target.split_at_mut(2);
        target_factors.copy_from_slice(&factors(block));
        let [low, high] = pieces(block);
        planes::pack(bits, &std::array::from_fn(|i| low.get(i) | high.get(i)), target);
    }
}

/// Two bits of element pairs: four blocks share 32 bytes.
fn two_bits(bytes: &[u8], block: usize) -> Piece<'_> {
    Piece::new(bytes, block / 4 * BLOCK, block % 4 * 2, 3, 0)
}

/// Nibbles: two neighbours share 32 bytes.
fn nibbles(bytes: &[u8], block: usize) -> Piece<'_> {
    Piece::new(bytes, block / 2 * BLOCK, block % 2 * 4, 15, 0)
}

/// 16 bytes of factors, 64 of elements, two halves.
pub(super) fn q2k(file: &[u8], unit: &mut [u8]) {
    let factors = |block: usize| [file[2 * block], file[2 * block + 1]];
    let pieces = |block| {
        let low = two_bits(&file[16..80], block);
        [low, Piece { mask: 0, ..low }]
    };
    write(2, unit, &file[80..84], factors, pieces);
}

/// 32 bytes of third bits, 64 of lower bits, 12 of scales, one half.
pub(super) fn q3k(file: &[u8], unit: &mut [u8]) {
    let scales = &file[96..108];
    let scale = |i: usize| {
        let low = scales[i % 8] >> (i / 8 * 4) & 15;
        let high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
        (low | high << 4).wrapping_sub(32)
    };
    let factors = |block: usize| [scale(2 * block), scale(2 * block + 1)];
    let pieces = |block| [two_bits(&file[32..96], block), Piece::new(file, 0, block, 1, 2)];
    write(3, unit, &file[108..110], factors, pieces);
}

/// Scale and minimum of block `j`, six bits each.
fn six_bit_factors(s: &[u8], j: usize) -> [u8; 2] {
    match j {
        0..4 => [s[j] & 63, s[j + 4] & 63],
        _ => [s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4],
    }
}

/// Two halves, 12 bytes of factors, 128 of nibbles.
pub(super) fn q4k(file: &[u8], unit: &mut [u8]) {
    let pieces = |block| {
        let low = nibbles(&file[16..144], block);
        [low, Piece { mask: 0, ..low }]
    };
    write(4, unit, &file[..4], |block| six_bit_factors(&file[4..16], block), pieces);
}

/// As [`q4k`], with 32 bytes of fifth bits before the nibbles.
pub(super) fn q5k(file: &[u8], unit: &mut [u8]) {
    let pieces = |block| [nibbles(&file[48..176], block), Piece::new(file, 16, block, 1, 4)];
    write(5, unit, &file[..4], |block| six_bit_factors(&file[4..16], block), pieces);
}

/// 128 bytes of nibbles, 64 of the upper bits, 16 signed scales, one half. Of four blocks the first two are
/// the low nibbles.
pub(super) fn q6k(file: &[u8], unit: &mut [u8]) {
    let factors = |block: usize| [file[192 + 2 * block], file[193 + 2 * block]];
    let pieces = |block: usize| {
        let low = Piece::new(file, block / 4 * 64 + block % 2 * BLOCK, block % 4 / 2 * 4, 15, 0);
        [low, Piece::new(&file[128..192], block / 4 * BLOCK, block % 4 * 2, 3, 4)]
    };
    write(6, unit, &file[208..210], factors, pieces);
}
