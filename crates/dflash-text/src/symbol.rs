//! What a model writes, as the parsers of answers see it: characters, and control tokens that mean something.

use std::sync::Arc;

use crate::control::Piece;
use crate::{Detokenizer, Tokenizer};

/// A character, or one control token of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Char(char),
    Control(u32),
}

/// A marker as it is recognised: its control tokens count as tokens only, the rest of it as text.
pub(crate) type Marker = Vec<Symbol>;

/// Spells `text` as a model with this vocabulary writes it.
pub(crate) fn marker(tokenizer: &Tokenizer, text: &str) -> Marker {
    let symbols = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => text.chars().map(Symbol::Char).collect(),
        Piece::Control(id) => vec![Symbol::Control(*id)],
    };
    tokenizer.split_control(text).iter().flat_map(symbols).collect()
}

/// Turns ids into symbols. Control tokens that belong to no marker are left out.
#[derive(Debug, Clone)]
pub(crate) struct SymbolReader {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    known: Arc<[u32]>,
}

impl SymbolReader {
    /// A reader that shows the control tokens of `markers`.
    pub fn new<'a>(tokenizer: &Tokenizer, markers: impl Iterator<Item = &'a Marker>) -> Self {
        let control = |symbol: &Symbol| match symbol {
            Symbol::Control(id) => Some(*id),
            Symbol::Char(_) => None,
        };
        let known = markers.flatten().filter_map(control).collect();
        Self { tokenizer: tokenizer.clone(), detokenizer: Detokenizer::new(tokenizer), known }
    }

    pub fn push(&mut self, id: u32) -> Vec<Symbol> {
        match self.known.contains(&id) {
            true => vec![Symbol::Control(id)],
            false => self.detokenizer.push(id).chars().map(Symbol::Char).collect(),
        }
    }

    /// What is left of an unfinished character.
    pub fn flush(&mut self) -> Vec<Symbol> {
        self.detokenizer.flush().chars().map(Symbol::Char).collect()
    }

    /// Appends the text of `symbol` as it stands in the vocabulary.
    pub fn spell(&self, symbol: Symbol, out: &mut String) {
        match symbol {
            Symbol::Char(c) => out.push(c),
            Symbol::Control(id) => {
                *out += &String::from_utf8_lossy(self.tokenizer.token_bytes(id).unwrap_or_default())
            }
        }
    }
}
