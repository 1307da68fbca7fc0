use crate::Format;

/// What can go wrong inside a backend.
///
/// A shape mismatch is not among them: shapes are proved when a checkpoint loads, so a mismatch is a bug
/// and panics with both shapes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BackendError {
    /// The backend has no kernel for this weight format.
    #[error("weight format {0} is not supported by this backend")]
    UnsupportedFormat(Format),
    /// The raw bytes of a matrix do not have the length its shape and format ask for.
    #[error("a {rows}x{cols} {format} matrix needs {expected} bytes, got {found}")]
    WrongLength {
        /// Format of the matrix.
        format: Format,
        /// Output features.
        rows: usize,
        /// Input features.
        cols: usize,
        /// Bytes asked for by shape and format.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The input features of a matrix are not a multiple of its block.
    #[error("{cols} input features are not a multiple of the {block}-wide blocks of {format}")]
    RaggedBlocks {
        /// Format of the matrix.
        format: Format,
        /// Input features.
        cols: usize,
        /// Block width.
        block: usize,
    },
    /// A logit is NaN, so no choice can be made: the weights or the activations are damaged.
    #[error("the logits of row {row} contain NaN at id {id}: the weights are damaged or overflow")]
    NotANumber {
        /// Row of the call.
        row: usize,
        /// Lowest vocabulary id that is NaN.
        id: u32,
    },
    /// The device failed; sticky until read with [`Backend::sync`](crate::Backend::sync).
    #[error("device error: {0}")]
    Device(String),
}
