use axum::http::StatusCode;
use dflash_engine::EngineError;
use dflash_text::TextError;

/// What kind of failure it is. Every API family has its own words and shape for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request cannot be obeyed: 400.
    Invalid,
    /// A key is missing or wrong: 401.
    Unauthorized,
    /// The browser's origin is not allowed: 403.
    Forbidden,
    /// No such route or model: 404.
    NotFound,
    /// The route takes another method: 405.
    Method,
    /// The body did not come in time: 408.
    Slow,
    /// The body is too large: 413.
    TooLarge,
    /// The body is no JSON by its own word: 415.
    MediaType,
    /// The queue is full: 429.
    Busy,
    /// Something inside failed: 500.
    Internal,
    /// The server ends: 503.
    Unavailable,
    /// The request took too long: 504.
    Timeout,
}

/// A failure as every route returns it; how it is written is the family's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Decides status and type.
    pub kind: Kind,
    /// Names the thing and the way out.
    pub message: String,
    /// The field of the request, as `messages[2].content`.
    pub param: Option<String>,
    /// A word for programs, as `model_not_found`.
    pub code: Option<&'static str>,
}

impl ApiError {
    /// A failure that belongs to no field.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None }
    }

    /// A field that cannot be obeyed.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(Kind::Invalid, message) }
    }

    /// With a word for programs.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Its HTTP status.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Slow => StatusCode::REQUEST_TIMEOUT,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::PromptTooLong { .. } => {
                Self::invalid("messages", message).code("context_length_exceeded")
            }
            EngineError::EmptyPrompt => Self::invalid("messages", message),
            EngineError::UnknownId { .. } => Self::invalid("prompt", message),
            EngineError::Sampling(_) => Self::invalid("logit_bias", message),
            EngineError::NothingAllowed { .. } => Self::invalid("response_format", message),
            EngineError::Busy { .. } => Self::new(Kind::Busy, message).code("queue_full"),
            EngineError::Stopped => Self::new(Kind::Unavailable, message),
            EngineError::Proposer { .. } | EngineError::Backend(_) | EngineError::Fault(_) => {
                Self::new(Kind::Internal, message)
            }
        }
    }
}

impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        Self::invalid("messages", error.to_string())
    }
}
