/// A prompt and the target's own answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Number of the prompt in its source.
    pub source: u64,
    /// What kind of prompt, such as `code`.
    pub category: String,
    /// Prompt, then answer, the id that ended it included.
    pub ids: Vec<u32>,
    /// Ids of the prompt.
    pub prompt: usize,
}

impl Sequence {
    /// Ids of the answer.
    pub fn answer(&self) -> &[u32] {
        &self.ids[self.prompt..]
    }
}
