//! How the 32 elements of a block stand in words of 32 bits.
//!
//! Four consecutive inputs are a quad: the bytes of a word, so that one instruction multiplies a quad of each
//! lane. Elements of fewer than eight bits are cut into planes: nibbles (two quads a word), pairs of bits (four) and single bits
//! (eight). A row's word is followed by the same word of the next lane. Elements of eight bits are signed.

use super::BLOCK;

/// Quads of a block.
pub(crate) const QUADS: usize = BLOCK / 4;

/// Where some bits of a quad are found, and where they belong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Word of the block.
    pub(crate) word: usize,
    /// Lowest bit of the field in each byte of the word.
    pub(crate) from: usize,
    /// Lowest bit of the field in the element.
    pub(crate) to: usize,
    /// The field's bits in the element; none at all is no field.
    pub(crate) mask: u8,
}

impl Field {
    const NONE: Self = Self { word: 0, from: 0, to: 0, mask: 0 };

    const fn nibble(word: usize, high: usize) -> Self {
        Self { word, from: 4 * high, to: 0, mask: 15 }
    }

    const fn pair(first: usize, quad: usize, to: usize) -> Self {
        Self { word: first + quad / 4, from: quad % 4 * 2, to, mask: 3 << to }
    }

    const fn bit(word: usize, quad: usize, to: usize) -> Self {
        Self { word, from: quad, to, mask: 1 << to }
    }

    /// The field's bits of a word, where they belong.
    #[inline(always)]
    pub(crate) fn take(self, word: u32) -> u32 {
        let moved =
            if self.from > self.to { word >> (self.from - self.to) } else { word << (self.to - self.from) };
        moved & u32::from_ne_bytes([self.mask; 4])
    }

    fn put(self, quad: u32) -> u32 {
        let bits = quad & u32::from_ne_bytes([self.mask; 4]);
        if self.from > self.to { bits << (self.from - self.to) } else { bits >> (self.to - self.from) }
    }
}

/// Where the elements of quad `quad` are, for elements of 2 to 6 bits.
#[inline(always)]
pub(crate) const fn fields(bits: u8, quad: usize) -> [Field; 2] {
    match bits {
        2 => [Field::pair(0, quad, 0), Field::NONE],
        3 => [Field::pair(0, quad, 0), Field::bit(2, quad, 2)],
        // As in GGUF: the second sixteen elements are the high nibbles of the first.
        4 => [Field::nibble(quad % 4, quad / 4), Field::NONE],
        5 => [Field::nibble(quad / 2, quad % 2), Field::bit(4, quad, 4)],
        6 => [Field::nibble(quad / 2, quad % 2), Field::pair(4, quad, 4)],
        _ => panic!("no planes of this width"),
    }
}

/// The quads that are multiplied together in step `step` of four: those that share a word of nibbles.
#[inline(always)]
pub(crate) const fn step(bits: u8, step: usize) -> [usize; 2] {
    if bits == 4 { [step, step + 4] } else { [2 * step, 2 * step + 1] }
}

/// The elements of quad `quad` as the bytes of a word, of a block with these words.
#[inline(always)]
pub(crate) fn quad(bits: u8, quad: usize, word: impl Fn(usize) -> u32) -> u32 {
    match bits {
        8 => word(quad),
        _ => fields(bits, quad).iter().fold(0, |all, field| all | field.take(word(field.word))),
    }
}

/// Writes the elements of a block into its `4 * bits` bytes.
#[inline(always)]
pub(crate) fn pack(bits: u8, elements: &[u8; BLOCK], block: &mut [u8]) {
    if bits == 8 {
        return block.copy_from_slice(elements);
    }
    let mut words = [0_u32; QUADS];
    for (quad, elements) in elements.as_chunks::<4>().0.iter().enumerate() {
        for field in fields(bits, quad) {
            words[field.word] |= field.put(u32::from_le_bytes(*elements));
        }
    }
    for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        for bits in [2, 3, 4, 5, 6, 8] {
            let mask = u8::MAX >> (8 - bits);
            let elements: [u8; BLOCK] = std::array::from_fn(|i| (i * 37 + 11) as u8 & mask);
            let mut block = vec![0; 4 * bits as usize];
            pack(bits, &elements, &mut block);
            let word = |index| u32::from_le_bytes(block.as_chunks().0[index]);
            let found: Vec<u8> = (0..QUADS).flat_map(|index| quad(bits, index, word).to_le_bytes()).collect();
            assert_eq!(found, elements, "{bits} bits");
        }
    }

    #[test]
    fn steps_take_every_quad_once_and_keep_halves_apart() {
        for bits in [2, 3, 5, 6] {
            let quads: Vec<usize> = (0..4).flat_map(|index| step(bits, index)).collect();
            assert_eq!(quads, (0..QUADS).collect::<Vec<_>>(), "{bits} bits");
        }
        let mut quads: Vec<usize> = (0..4).flat_map(|index| step(4, index)).collect();
        quads.sort_unstable();
        assert_eq!(quads, (0..QUADS).collect::<Vec<_>>());
    }
}
