//! Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3" (SC 2011): a keyed bijection of counters, so every number can be had by itself.

/// Multipliers of the rounds.
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What the key grows by: the golden ratio and √3 − 1.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

/// The four numbers of a counter.
#[inline]
pub(super) fn philox(counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    for _ in 0..ROUNDS {
        let x = u64::from(a) * u64::from(MULTIPLIERS[0]);
        let y = u64::from(c) * u64::from(MULTIPLIERS[1]);
        a = (y >> 32) as u32 ^ b ^ key[0];
        c = (x >> 32) as u32 ^ d ^ key[1];
        (b, d) = (y as u32, x as u32);
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the authors' own tests (`kat_vectors` of Random123).
    #[test]
    fn known_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, expected) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            assert_eq!(philox(counter, key), expected);
        }
    }
}
