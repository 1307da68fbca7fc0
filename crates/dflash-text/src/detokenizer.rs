use crate::Tokenizer;

/// Longest beginning of a UTF-8 character that is not yet the whole of it.
const MAX_HELD: usize = 3;

/// Turns ids into text as they come.
///
/// A token may end in the middle of a character. Its bytes are held back until the character is whole, so what
/// [`push`](Self::push) returns is always text, and everything returned, concatenated with
/// [`flush`](Self::flush), equals [`Tokenizer::decode`] of all ids. Bytes that can never become a character turn
/// into U+FFFD at once, a beginning left over at the end turns into one.
///
/// A clone is a checkpoint: it costs a few words, whatever the length of the text so far.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special: bool,
    at_start: bool,
    held: [u8; MAX_HELD],
    held_len: u8,
}

impl Detokenizer {
    /// A detokenizer that leaves out control tokens.
    pub fn new(tokenizer: &Tokenizer) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            skip_special: true,
            at_start: true,
            held: [0; MAX_HELD],
            held_len: 0,
        }
    }

    /// Shows control tokens as text too.
    #[must_use]
    pub fn with_special(mut self) -> Self {
        self.skip_special = false;
        self
    }

    /// The text that `id` completes. Ids outside the vocabulary give none.
    pub fn push(&mut self, id: u32) -> String {
        let mut out = String::new();
        self.push_into(id, &mut out);
        out
    }

    /// Like [`push`](Self::push), appending to `out`.
    pub fn push_into(&mut self, id: u32, out: &mut String) {
        let tokenizer = self.tokenizer.clone();
        let Some(bytes) = tokenizer.token_bytes(id) else { return };
        if self.skip_special && tokenizer.is_special(id) {
            return;
        }
        self.append(self.without_leading_space(bytes), out);
        self.at_start &= bytes.is_empty();
    }

    /// What is left at the end of the ids: nothing, or one U+FFFD for an unfinished character.
    pub fn flush(&mut self) -> String {
        let unfinished = std::mem::take(&mut self.held_len) > 0;
        self.at_start = true;
        if unfinished { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }

    fn without_leading_space<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match bytes {
            [b' ', rest @ ..] if self.at_start && self.tokenizer.strips_leading_space() => rest,
            _ => bytes,
        }
    }

    fn append(&mut self, bytes: &[u8], out: &mut String) {
        if self.held_len == 0 {
            return self.append_chunks(bytes, out);
        }
        let mut joined = self.held[..usize::from(self.held_len)].to_vec();
        joined.extend_from_slice(bytes);
        self.append_chunks(&joined, out);
    }

    fn append_chunks(&mut self, mut bytes: &[u8], out: &mut String) {
        self.held_len = 0;
        while let Err(error) = std::str::from_utf8(bytes) {
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            out.push_str(&String::from_utf8_lossy(valid));
            let Some(bad) = error.error_len() else { return self.hold(rest) };
            out.push(char::REPLACEMENT_CHARACTER);
            bytes = &rest[bad..];
        }
        out.push_str(&String::from_utf8_lossy(bytes));
    }

    fn hold(&mut self, rest: &[u8]) {
        self.held[..rest.len()].copy_from_slice(rest);
        self.held_len = rest.len() as u8;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples;

    use super::*;

    fn stream(ids: &[u32], tokenizer: &Tokenizer) -> String {
        let mut detokenizer = Detokenizer::new(tokenizer);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text += &detokenizer.flush();
        text
    }

    #[test]
    fn characters_come_whole() {
        let tokenizer = samples::bytes_only();
        let text = "Příliš žluťoučký 한국어 日本語 🇨🇿👩‍👩‍👧‍👦";
        let ids = tokenizer.encode(text, false).unwrap();
        assert!(ids.len() > text.chars().count());
        let mut detokenizer = Detokenizer::new(&tokenizer);
        let parts: Vec<String> = ids.iter().map(|&id| detokenizer.push(id)).collect();
        assert!(parts.iter().all(|part| part.chars().count() <= 1 && !part.contains('\u{FFFD}')));
        assert_eq!(parts.concat(), text);
        assert_eq!(detokenizer.flush(), "");
    }

    #[test]
    fn unfinished_character_becomes_one_replacement() {
        let tokenizer = samples::bytes_only();
        let ids = tokenizer.encode("a👩", false).unwrap();
        for cut in 2..ids.len() {
            assert_eq!(stream(&ids[..cut], &tokenizer), "a\u{FFFD}");
        }
    }

    #[test]
    fn control_tokens_are_left_out_unless_asked_for() {
        let tokenizer = samples::smollm();
        let ids = tokenizer.encode("<|im_start|>hi<|im_end|>", true).unwrap();
        assert_eq!(stream(&ids, &tokenizer), "hi");
        let mut shown = Detokenizer::new(&tokenizer).with_special();
        let text: String = ids.iter().map(|&id| shown.push(id)).collect();
        assert_eq!(text, "<|im_start|>hi<|im_end|>");
        assert_eq!(shown.push(u32::MAX), "");
    }

    proptest! {
        #[test]
        fn any_bytes_stream_to_the_full_decode(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let tokenizer = samples::bytes_only();
            let ids: Vec<u32> = bytes.iter().map(|&b| samples::id_of_byte(b)).collect();
            prop_assert_eq!(stream(&ids, &tokenizer), tokenizer.decode(&ids, true));
            prop_assert_eq!(tokenizer.decode(&ids, true), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_text_comes_back(text in "\\PC{0,24}", cut in 0usize..200) {
            let tokenizer = samples::bytes_only();
            let ids = tokenizer.encode(&text, false).unwrap();
            prop_assert_eq!(stream(&ids, &tokenizer), text);
            let head = &ids[..cut.min(ids.len())];
            prop_assert_eq!(stream(head, &tokenizer), tokenizer.decode(head, true));
        }
    }
}
