use crate::report::Outcome;
use crate::text::TextPipeline;

/// One prompt of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name; no other prompt of the suite has it.
    pub id: String,
    /// What it is counted with.
    pub category: String,
    /// What the model is given; not empty.
    pub text: String,
    /// The right answer, where the suite has one that [`super::aime`] can compare.
    pub answer: Option<String>,
    /// Whether `text` is what a user says in a chat; else it is a beginning to go on with.
    pub chat_template: bool,
}

impl Prompt {
    /// As the model is given it; `chat` forbids the chat template where it is false.
    ///
    /// # Errors
    /// A text that the template or the tokenizer refuses.
    pub fn ids(&self, text: &TextPipeline, chat: bool) -> Outcome<Vec<u32>> {
        match self.chat_template && chat {
            true => text.encode_chat(None, &self.text),
            false => text.encode_raw(&self.text),
        }
    }

    /// What a user says in a chat; there is no right answer.
    pub(super) fn plain(id: impl Into<String>, category: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            category: category.into(),
            text: text.into(),
            answer: None,
            chat_template: true,
        }
    }
}
