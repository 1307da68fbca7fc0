//! Small numbers as Parquet stores them: runs of one number, and groups of eight that are packed by bits.

use super::ParquetError;

/// The first `count` numbers of `bytes`, each of `width` bits.
pub(super) fn numbers(mut bytes: &[u8], width: u32, count: usize) -> Result<Vec<u32>, ParquetError> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let wanted = count - numbers.len();
        let cut = ParquetError::Damaged("a page ends too early");
        let (head, rest) = head(bytes).ok_or(cut.clone())?;
        let (half, length) = (head >> 1, (width as usize).div_ceil(8));
        let is_packed = head & 1 == 1;
        let length = if is_packed { half.saturating_mul(width as usize) } else { length };
        let (run, after) = rest.split_at_checked(length).ok_or(cut)?;
        bytes = after;
        if half == 0 {
            return Err(ParquetError::Damaged("a run of nothing"));
        }
        if is_packed {
            numbers.extend((0..half.saturating_mul(8).min(wanted)).map(|index| packed(run, width, index)));
        } else {
            let number = run.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
            numbers.extend(std::iter::repeat_n(number, half.min(wanted)));
        }
    }
    Ok(numbers)
}

/// Length and kind of a run: seven bits a byte, the low ones first.
fn head(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// The number at `index`, from the lowest bit of the first byte on.
fn packed(bytes: &[u8], width: u32, index: usize) -> u32 {
    let first = index * width as usize;
    let bit = |bit: usize| u32::from(bytes[(first + bit) / 8] >> ((first + bit) % 8) & 1) << bit;
    (0..width as usize).map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_groups() {
        // Four times 5 in 3 bits, then 0 to 7.
        let bytes = [0x08, 0x05, 0x03, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(numbers(&bytes, 3, 12).unwrap(), [5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(&bytes, 3, 6).unwrap(), [5, 5, 5, 5, 0, 1]);
        assert_eq!(numbers(&[0x06], 0, 3).unwrap(), [0, 0, 0]);
        assert_eq!(numbers(&[0x04, 0x34, 0x12], 12, 2).unwrap(), [0x1234, 0x1234]);
    }

    #[test]
    fn what_ends_too_early_is_refused() {
        for bytes in [&[][..], &[0x08], &[0x03, 0, 0], &[0x00, 0], &[0x01], &[0xff; 9]] {
            numbers(bytes, 3, 12).unwrap_err();
        }
    }
}
