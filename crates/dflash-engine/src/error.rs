use dflash_tensor::BackendError;

use crate::sampling::SamplingError;

/// Why a request could not be decoded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// Nothing to continue.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt} tokens, the model's context {context}: nothing can be generated")]
    PromptTooLong {
        /// Ids of the prompt.
        prompt: usize,
        /// Positions of the model.
        context: usize,
    },
    /// An id the model has no embedding for.
    #[error("prompt token {id} at position {position} is outside the vocabulary of {vocab}")]
    UnknownId {
        /// The id.
        id: u32,
        /// Its position in the prompt.
        position: usize,
        /// Valid ids are below.
        vocab: usize,
    },
    /// Parameters that this model does not take.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A guard that leaves nothing to choose.
    #[error("the grammar of the request allows no token that the model could choose at position {position}")]
    NothingAllowed {
        /// Position, the prompt's ids included.
        position: usize,
    },
    /// A proposer gives no numbers.
    #[error("the {name} model cannot be used: {source}")]
    Proposer {
        /// Its name.
        name: &'static str,
        /// What it ran into.
        source: BackendError,
    },
    /// The backend failed or produced no number.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The engine takes no more requests for now.
    #[error("the engine is busy: {waiting} requests are waiting")]
    Busy {
        /// Requests in the queue.
        waiting: usize,
    },
    /// A fault inside the engine ended this request.
    #[error("the engine failed: {0}")]
    Fault(String),
    /// The engine has stopped.
    #[error("the engine has stopped")]
    Stopped,
}
