/// A number that looks like chance and depends on both, by the finaliser of MurmurHash3.
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    let mut bits = seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}
