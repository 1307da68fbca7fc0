use dflash_text::{ChatTemplate, Message, RenderRequest, TextError, Tokenizer};

use crate::TrainError;

/// How a user speaks to the target: its template around one message.
pub struct Turn<'a> {
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    /// Ids after the message: the end of the turn and the beginning of the answer.
    tail: usize,
    /// The first of them.
    end: u32,
}

impl<'a> Turn<'a> {
    /// Learns from two messages where a message ends.
    ///
    /// # Errors
    /// A template that writes nothing after a message, or fails.
    pub fn new(tokenizer: &'a Tokenizer, template: &'a ChatTemplate) -> Result<Self, TrainError> {
        let mut turn = Self { tokenizer, template, tail: 0, end: 0 };
        let [one, other] = ["a", "7"].map(|text| turn.prompt(text));
        let (one, other) = (one?, other?);
        turn.tail = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
        let none = "the chat template writes nothing after a message; give prompts with --prompts";
        let end = one.len().checked_sub(turn.tail).and_then(|place| one.get(place));
        turn.end = *end.ok_or_else(|| TrainError::Refused(none.into()))?;
        Ok(turn)
    }

    /// Ids of a whole prompt.
    ///
    /// # Errors
    /// Of template and tokenizer.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let rendered = self.template.render(&RenderRequest::new(vec![Message::new("user", text)]))?;
        self.tokenizer.encode_rendered(&rendered)
    }

    /// Ids of a message that goes on.
    ///
    /// # Errors
    /// Of template and tokenizer.
    pub(super) fn open(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = self.prompt(text)?;
        ids.truncate(ids.len() - self.tail);
        Ok(ids)
    }

    /// The id that ends a message.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// The text of ids, without control tokens.
    pub(super) fn text(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, true)
    }
}
