/// The step that a sequence shares, were it to decode plainly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Company {
    /// Sequences that decode in it, this one included.
    pub sequences: usize,
    /// Rows: one for each of these, and those of prompts.
    pub rows: usize,
    /// Sequences among which a draft's pass is divided, this one included, as it was of late.
    pub drafting: usize,
}

impl Company {
    /// A step of its own.
    pub const ALONE: Self = Self { sequences: 1, rows: 1, drafting: 1 };
}
