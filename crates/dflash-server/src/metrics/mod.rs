//! What a server counts: `/metrics` and the logs tell it.

mod observer;

pub use observer::Observer;

/// The counts of a server.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// Follows an answer from now on.
    pub fn observe(&self, request: &RequestFacts) -> Observer {
        Observer::new(request)
    }
}

/// What is known of a request before it is decoded.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// The id that its answer carries.
    pub id: String,
    /// The route, such as `chat.completions`.
    pub api: &'static str,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Ids at most.
    pub max_tokens: usize,
}
