//! Stands in for the parser of `dflash-text` until that has landed.
#![allow(missing_docs)]
use dflash_text::{Detokenizer, StopStrings, TextError, TextGuard, Tokenizer, Verdict};

/// How the ids of an answer are read.
#[derive(Debug, Clone, Default)]
pub struct AnswerFormat {
    /// The answer is cut before any of them.
    pub stop: Vec<String>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Of the model's thoughts.
    Reasoning(String),
    /// Of the answer proper.
    Content(String),
    /// A tool call begins.
    CallStart { index: usize, name: String },
    /// More of its arguments, which are JSON.
    CallArguments { index: usize, json: String },
    /// It is complete.
    CallEnd { index: usize },
}

/// Splits an answer as its ids come.
pub struct AnswerParser {
    guard: TextGuard,
}

impl AnswerParser {
    pub fn new(tokenizer: &Tokenizer, format: AnswerFormat) -> Result<Self, TextError> {
        let stops = StopStrings::new(format.stop)?;
        Ok(Self { guard: TextGuard::new(Detokenizer::new(tokenizer), stops) })
    }

    pub fn push(&mut self, id: u32) -> Vec<Piece> {
        self.guard.push(id);
        self.pieces()
    }

    pub fn finish(&mut self) -> Vec<Piece> {
        self.guard.finish();
        self.pieces()
    }

    pub fn calls(&self) -> usize {
        0
    }

    pub fn reasoning_tokens(&self) -> usize {
        0
    }

    pub fn stopped(&self) -> bool {
        self.guard.clone().finish() == Verdict::Stop
    }

    fn pieces(&mut self) -> Vec<Piece> {
        let text = self.guard.take_text();
        if text.is_empty() { Vec::new() } else { vec![Piece::Content(text)] }
    }
}
