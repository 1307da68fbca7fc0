use super::{Field, MOST_ALTERNATIVES};

/// Why parameters cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A number that the field does not take.
    #[error("{field} is {given}: it takes {}", field.valid())]
    OutOfRange {
        /// The field.
        field: Field,
        /// The number.
        given: f64,
    },
    /// A bias for an id that the model has not.
    #[error("logit_bias names id {id}, outside the vocabulary of {vocab}: it takes ids below that")]
    UnknownId {
        /// The id.
        id: u32,
        /// Valid ids are below.
        vocab: usize,
    },
    /// More alternatives than are told.
    #[error("logprobs is {given}: it takes a whole number from 0 to {MOST_ALTERNATIVES}")]
    TooManyAlternatives {
        /// Alternatives asked for.
        given: usize,
    },
}
