use crate::{SamplingParams, TokenGuard};

/// How a request is decoded. The ids are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decoding {
    /// With the engine's proposers and width policy.
    #[default]
    Speculative,
    /// With those proposers alone that come before the first costly one, such as context copy.
    Ngram,
    /// One row at a time, nothing proposed and nothing tapped.
    Plain,
}

/// A decoding request.
pub struct Request {
    /// Token ids to continue; not empty.
    pub prompt: Vec<u32>,
    /// Ids at most; the context of the model limits it further.
    pub max_tokens: usize,
    /// Ids that end the answer; the first one produced is delivered as its last id.
    pub stop_ids: Vec<u32>,
    /// Ends the answer by other means, such as stop strings.
    pub guard: Option<Box<dyn TokenGuard>>,
    /// Speculative or plain.
    pub decoding: Decoding,
    /// How ids are chosen.
    pub sampling: SamplingParams,
    /// Number of this answer among several to one prompt: each draws other noise.
    pub choice: u32,
    /// Tells log-probabilities, with so many alternatives to every id.
    pub logprobs: Option<usize>,
    /// Lengths of the prompt, ascending, up to which other prompts are likely to be the same: the ends of its messages.
    pub boundaries: Vec<usize>,
    /// Goes on from what others left behind, and leaves what it did to others.
    pub shares: bool,
}

impl Request {
    /// A speculative, greedy request without stop ids.
    pub fn new(prompt: Vec<u32>, max_tokens: usize) -> Self {
        Self {
            prompt,
            max_tokens,
            stop_ids: Vec::new(),
            guard: None,
            decoding: Decoding::default(),
            sampling: SamplingParams::default(),
            choice: 0,
            logprobs: None,
            boundaries: Vec::new(),
            shares: true,
        }
    }
}
