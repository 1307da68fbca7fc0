//! GPT-2's alphabet: every byte spelled as one printable character, which is how byte-level vocabularies are written.

use std::sync::LazyLock;

/// Characters above this are in no byte-level alphabet.
const LAST_CHAR: usize = 0x143;

static BYTE_OF_CHAR: LazyLock<[Option<u8>; LAST_CHAR + 1]> = LazyLock::new(|| {
    let mut table = [None; LAST_CHAR + 1];
    let mut spare = 0x100..;
    for byte in 0..=255u8 {
        let at = if is_printable(byte) { Some(usize::from(byte)) } else { spare.next() };
        at.into_iter().for_each(|at| table[at] = Some(byte));
    }
    table
});

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The bytes that `spelling` stands for; its own UTF-8 when any character is outside the alphabet.
pub(crate) fn bytes_of(spelling: &str) -> Vec<u8> {
    let mapped = spelling.chars().map(|c| BYTE_OF_CHAR.get(c as usize).copied().flatten());
    mapped.collect::<Option<Vec<u8>>>().unwrap_or_else(|| spelling.as_bytes().to_vec())
}

/// The inverse of [`bytes_of`], for building vocabularies in tests.
#[cfg(test)]
pub(crate) fn spelling_of(bytes: &[u8]) -> String {
    let char_of = |byte: u8| (0..=LAST_CHAR).find(|&c| BYTE_OF_CHAR[c] == Some(byte)).unwrap();
    bytes.iter().map(|&b| char::from_u32(char_of(b) as u32).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        for byte in 0..=255u8 {
            assert_eq!(bytes_of(&spelling_of(&[byte])), [byte]);
        }
        assert_eq!(spelling_of(b" a\n"), "ĠaĊ");
        assert_eq!(bytes_of("日"), "日".as_bytes());
    }
}
