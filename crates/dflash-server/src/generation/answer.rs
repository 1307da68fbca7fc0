use dflash_engine::{Stats, TokenLogprobs};

use super::{Finish, Piece, Running, Step, Update};
use crate::ApiError;

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The model's thoughts.
    pub reasoning: String,
    /// The answer proper.
    pub content: String,
    /// Tool calls, in order.
    pub calls: Vec<ToolCall>,
    /// Every id.
    pub ids: Vec<u32>,
    /// Of every id, where they were asked for.
    pub logprobs: Vec<TokenLogprobs>,
    /// Why it ended.
    pub finish: Finish,
    /// What it took.
    pub stats: Stats,
    /// Ids inside a block of reasoning.
    pub reasoning_tokens: usize,
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Of the tool.
    pub name: String,
    /// JSON, as the model wrote it.
    pub arguments: String,
}

/// Waits for all answers.
///
/// # Errors
/// The failure of any of them.
pub async fn collect(mut running: Running, answers: u32) -> Result<Vec<Answer>, ApiError> {
    let empty = || Answer {
        reasoning: String::new(),
        content: String::new(),
        calls: Vec::new(),
        ids: Vec::new(),
        logprobs: Vec::new(),
        finish: Finish::Length,
        stats: Stats::default(),
        reasoning_tokens: 0,
    };
    let mut all: Vec<Answer> = (0..answers).map(|_| empty()).collect();
    while let Some(Update { answer, step }) = running.next().await? {
        let answer = &mut all[answer];
        match step {
            Step::Tokens { ids, pieces, logprobs } => {
                answer.ids.extend(ids);
                answer.logprobs.extend(logprobs);
                answer.take(pieces);
            }
            Step::Finished { finish, pieces, stats, reasoning, .. } => {
                answer.take(pieces);
                (answer.finish, answer.stats, answer.reasoning_tokens) = (finish, *stats, reasoning);
            }
            Step::Prefill { .. } | Step::Cycle(_) => {}
        }
    }
    Ok(all)
}

impl Answer {
    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => self.reasoning += &text,
                Piece::Content(text) => self.content += &text,
                Piece::CallStart { name, .. } => self.calls.push(ToolCall { name, ..ToolCall::default() }),
                Piece::CallArguments { index, json } => self.calls[index].arguments += &json,
                Piece::CallEnd { .. } => {}
            }
        }
    }
}
