/// Why an answer cannot be constrained as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// A keyword that answers cannot be held to.
    #[error("the schema's keyword {keyword:?} at {at} cannot be honoured; leave it out")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// JSON pointer of the schema that has it.
        at: String,
    },
    /// Something in a schema that is no schema, or that no answer can fit.
    #[error("the schema cannot be used: {reason}")]
    Schema {
        /// What is wrong, and where.
        reason: String,
    },
    /// More than a request may ask for.
    #[error("{what} of {found} is over the limit of {limit}; make it simpler")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much was asked for.
        found: usize,
        /// How much there may be.
        limit: usize,
    },
    /// A tool that cannot be called, or a choice of one that is not there.
    #[error("the tools cannot be used: {reason}")]
    Tools {
        /// What is wrong, and with which tool.
        reason: String,
    },
    /// A regular expression or a grammar that cannot be read.
    #[error("the {kind} cannot be used: {reason}")]
    Grammar {
        /// What it is.
        kind: &'static str,
        /// What the grammar library says.
        reason: String,
    },
    /// A vocabulary that no grammar can be put over.
    #[error("the model's vocabulary cannot be constrained: {reason}")]
    Vocabulary {
        /// What is wrong with it.
        reason: String,
    },
}
