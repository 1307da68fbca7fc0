//! Control tokens inside text: finding them, and the blanks some of them swallow.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

/// One control token and how it matches, in the terms of `tokenizer.json`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControlToken {
    pub id: u32,
    pub content: String,
    pub single_word: bool,
    pub lstrip: bool,
    pub rstrip: bool,
}

/// A run of ordinary text, or one control token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Control(u32),
}

/// The control tokens of one vocabulary.
///
/// They are matched here and not by the tokenizer library, because whether a match counts depends on who wrote
/// it: the library has one switch per tokenizer, and this crate must decide per occurrence.
#[derive(Debug, Default)]
pub(crate) struct ControlTokens {
    tokens: Vec<ControlToken>,
    by_content: HashMap<String, usize>,
    by_id: HashMap<u32, usize>,
    finder: Option<AhoCorasick>,
}

impl ControlTokens {
    pub fn new(mut tokens: Vec<ControlToken>) -> Result<Self, aho_corasick::BuildError> {
        tokens.retain(|token| !token.content.is_empty());
        tokens.sort_by_key(|token| token.id);
        let finder = find_longest(tokens.iter().map(|token| token.content.as_str()))?;
        let by_content = tokens.iter().enumerate().map(|(at, token)| (token.content.clone(), at)).collect();
        let by_id = tokens.iter().enumerate().map(|(at, token)| (token.id, at)).collect();
        Ok(Self { tokens, by_content, by_id, finder })
    }

    pub fn contents(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|token| token.content.as_str())
    }

    pub fn id_of(&self, content: &str) -> Option<u32> {
        self.by_content.get(content).map(|&at| self.tokens[at].id)
    }

    /// Cuts `text` at its control tokens: leftmost first, the longest where several begin.
    pub fn split<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let Some(finder) = &self.finder else { return vec![Piece::Text(text)] };
        let mut pieces = Vec::new();
        let mut done = 0;
        for found in finder.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            if token.single_word && !stands_alone(text, found.start(), found.end()) {
                continue;
            }
            pieces.push(Piece::Text(&text[done..found.start()]));
            pieces.push(Piece::Control(token.id));
            done = found.end();
        }
        pieces.push(Piece::Text(&text[done..]));
        pieces
    }

    /// Takes away the blanks that a control token swallows on its left or right.
    pub fn absorb_blanks(&self, pieces: &mut [Piece<'_>]) {
        for at in 0..pieces.len() {
            let Piece::Control(id) = pieces[at] else { continue };
            let Some(token) = self.by_id.get(&id).map(|&index| &self.tokens[index]) else { continue };
            if token.lstrip && at > 0 {
                pieces[at - 1] = pieces[at - 1].map_text(str::trim_end);
            }
            if token.rstrip && at + 1 < pieces.len() {
                pieces[at + 1] = pieces[at + 1].map_text(str::trim_start);
            }
        }
    }
}

impl<'a> Piece<'a> {
    fn map_text(self, change: impl Fn(&'a str) -> &'a str) -> Self {
        match self {
            Self::Text(text) => Self::Text(change(text)),
            control => control,
        }
    }
}

/// A finder for the leftmost, longest of `patterns`; `None` when there are none.
pub(crate) fn find_longest<'a>(
    patterns: impl ExactSizeIterator<Item = &'a str>,
) -> Result<Option<AhoCorasick>, aho_corasick::BuildError> {
    if patterns.len() == 0 {
        return Ok(None);
    }
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).map(Some)
}

fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..start].ends_with(is_word) && !text[end..].starts_with(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32, content: &str) -> ControlToken {
        ControlToken { id, content: content.into(), ..Default::default() }
    }

    #[test]
    fn longest_control_token_wins() {
        let control = ControlTokens::new(vec![token(1, "<s>"), token(2, "<s>x")]).unwrap();
        let pieces = control.split("a<s>x<s>b");
        let expected =
            [Piece::Text("a"), Piece::Control(2), Piece::Text(""), Piece::Control(1), Piece::Text("b")];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn swallowed_blanks_and_single_words() {
        let end = ControlToken { rstrip: true, lstrip: true, ..token(1, "<end>") };
        let word = ControlToken { single_word: true, ..token(2, "mask") };
        let control = ControlTokens::new(vec![end, word]).unwrap();
        let mut pieces = control.split("a <end>\n b unmasked mask");
        control.absorb_blanks(&mut pieces);
        let expected = [
            Piece::Text("a"),
            Piece::Control(1),
            Piece::Text("b unmasked "),
            Piece::Control(2),
            Piece::Text(""),
        ];
        assert_eq!(pieces, expected);
    }
}
