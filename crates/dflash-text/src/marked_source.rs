//! A template whose control tokens are replaced by private characters, and the way back.
//!
//! A rendered string does not say who wrote which part of it. So each control token in the *template* is replaced
//! by one character that occurs neither in the template nor in the request. Wherever that character shows up in
//! the output, the template put it there; wherever a control token's text shows up, it did not.

use std::ops::Range;

use crate::control::find_longest;
use crate::{Rendered, Segment, SpecialTokens, TextError};

/// Planes 15 and 16: characters for private use, which no alphabet needs.
const PRIVATE: [Range<u32>; 2] = [0xF_0000..0xF_FFFE, 0x10_0000..0x10_FFFE];

/// A template with its control tokens replaced.
#[derive(Debug, Clone)]
pub(crate) struct MarkedSource {
    pub source: String,
    first: u32,
    tokens: Vec<String>,
}

impl MarkedSource {
    /// Replaces the control tokens in `source` by characters that are not in `taken`, either.
    ///
    /// `None` when no free characters are left.
    pub fn new(source: &str, special: &SpecialTokens, taken: &str) -> Result<Option<Self>, TextError> {
        let tokens = tokens_used(source, special);
        let Some(first) = free_run(tokens.len() as u32, &[source, taken]) else { return Ok(None) };
        let mut marked = Self { source: String::new(), first, tokens };
        marked.source = marked.replace(source)?;
        Ok(Some(marked))
    }

    /// What stands for `token` in the output.
    pub fn mark_of(&self, token: &str) -> Option<String> {
        let at = self.tokens.iter().position(|known| known == token)?;
        char::from_u32(self.first + at as u32).map(String::from)
    }

    /// Whether `text` holds one of the private characters.
    pub fn clashes_with(&self, text: &str) -> bool {
        text.chars().any(|c| self.token_of(c).is_some())
    }

    /// Puts the control tokens back, as segments of their own.
    pub fn unmark(&self, output: &str) -> Rendered {
        let mut segments = Vec::new();
        let mut done = 0;
        for (at, c) in output.char_indices() {
            let Some(token) = self.token_of(c) else { continue };
            segments.push(Segment::Text(output[done..at].to_owned()));
            segments.push(Segment::Control(token.to_owned()));
            done = at + c.len_utf8();
        }
        segments.push(Segment::Text(output[done..].to_owned()));
        segments.into_iter().collect()
    }

    fn token_of(&self, c: char) -> Option<&str> {
        let at = (c as u32).checked_sub(self.first)?;
        self.tokens.get(at as usize).map(String::as_str)
    }

    fn replace(&self, source: &str) -> Result<String, TextError> {
        let finder = find_longest(self.tokens.iter().map(String::as_str));
        let finder = finder.map_err(|e| TextError::TemplateSyntax { line: 0, reason: e.to_string() })?;
        let Some(finder) = finder else { return Ok(source.to_owned()) };
        let marks: Vec<String> = self.tokens.iter().filter_map(|token| self.mark_of(token)).collect();
        Ok(finder.replace_all(source, &marks))
    }
}

/// The control tokens that this template can write: those in its text, and the two it gets as variables.
fn tokens_used(source: &str, special: &SpecialTokens) -> Vec<String> {
    let variables = [&special.bos, &special.eos].into_iter().flatten();
    let written = special.control.iter().filter(|token| source.contains(token.as_str()));
    let mut tokens: Vec<String> =
        written.chain(variables).filter(|token| !token.is_empty()).cloned().collect();
    tokens.sort();
    tokens.dedup();
    tokens
}

/// The first of `len` neighbouring private characters that occur in none of `texts`.
fn free_run(len: u32, texts: &[&str]) -> Option<u32> {
    let is_private = |c: &u32| PRIVATE.iter().any(|plane| plane.contains(c));
    let mut used: Vec<u32> =
        texts.iter().flat_map(|text| text.chars()).map(u32::from).filter(is_private).collect();
    used.sort_unstable();
    for plane in PRIVATE {
        let mut first = plane.start;
        for &taken in used.iter().filter(|c| plane.contains(c)) {
            if taken >= first + len {
                break;
            }
            first = first.max(taken + 1);
        }
        if first + len <= plane.end {
            return Some(first);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn special() -> SpecialTokens {
        let control = ["<s>", "<e>", "<unused>"].map(String::from).to_vec();
        SpecialTokens { bos: Some("<s>".into()), eos: None, control }
    }

    #[test]
    fn there_and_back() {
        let marked = MarkedSource::new("a<e>b<s><e>", &special(), "").unwrap().unwrap();
        assert_eq!(marked.source, "a\u{F0000}b\u{F0001}\u{F0000}");
        let back = marked.unmark(&marked.source);
        assert_eq!(back.to_string(), "a<e>b<s><e>");
        assert_eq!(back.segments()[3], Segment::Control("<s>".into()));
        assert_eq!(marked.unmark("x<s>").segments(), [Segment::Text("x<s>".into())]);
    }

    #[test]
    fn taken_characters_are_avoided() {
        let marked = MarkedSource::new("<e>", &special(), "\u{F0001}\u{F0004}").unwrap().unwrap();
        assert_eq!(marked.source, "\u{F0002}");
        assert!(marked.clashes_with("\u{F0003}") && !marked.clashes_with("\u{F0001}\u{F0004}"));
        let every: String = PRIVATE.into_iter().flatten().filter_map(char::from_u32).collect();
        assert!(MarkedSource::new("<e>", &special(), &every).unwrap().is_none());
    }
}
