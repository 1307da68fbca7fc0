use axum::response::{IntoResponse, Response};

use crate::ApiError;
use crate::anthropic::AnthropicError;
use crate::openai::OpenAiError;

/// Whose shape errors of a path have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `{"error": …}`; also of routes that are nobody's.
    OpenAi,
    /// `{"type": "error", …}`
    Anthropic,
}

impl Family {
    /// By the path of a request.
    pub fn of(path: &str) -> Self {
        let below = path.strip_prefix("/v1/messages");
        match below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            true => Self::Anthropic,
            false => Self::OpenAi,
        }
    }

    /// An error in its shape.
    pub fn respond(self, error: ApiError) -> Response {
        match self {
            Self::OpenAi => OpenAiError(error).into_response(),
            Self::Anthropic => AnthropicError(error).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_one_family() {
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/x"] {
            assert_eq!(Family::of(path), Family::Anthropic, "{path}");
        }
        for path in ["/", "/v1/messagesx", "/v1/chat/completions", "/x/v1/messages"] {
            assert_eq!(Family::of(path), Family::OpenAi, "{path}");
        }
    }
}
