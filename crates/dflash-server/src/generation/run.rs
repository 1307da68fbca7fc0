use dflash_engine::{Cycle, Event, FinishReason, Request, Stats, Ticket, TokenLogprobs};
use dflash_text::AnswerParser;
use tokio::sync::mpsc::UnboundedReceiver;

use super::guards::{self, EndGuard};
use super::{AnswerFormat, Generation, Piece};
use crate::metrics::{Observer, RequestFacts};
use crate::{ApiError, App, logs};

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A stop id or a stop string.
    Stop,
    /// `max_tokens` or the context of the model.
    Length,
    /// The model waits for the results of its tool calls.
    ToolCalls,
}

/// What happens to an answer.
#[derive(Debug)]
pub struct Update {
    /// Which one, from 0.
    pub answer: usize,
    /// What.
    pub step: Step,
}

/// What happens to an answer, in order; the last one is `Finished`.
#[derive(Debug)]
pub enum Step {
    /// Prompt ids that were read so far.
    Prefill {
        /// So many.
        done: usize,
        /// Of so many.
        total: usize,
    },
    /// Ids that were committed together, and the text they made visible.
    Tokens {
        /// The ids.
        ids: Vec<u32>,
        /// The text.
        pieces: Vec<Piece>,
        /// Of every id, where they were asked for.
        logprobs: Vec<TokenLogprobs>,
    },
    /// A cycle ended; its ids came before.
    Cycle(Cycle),
    /// The answer is complete.
    Finished {
        /// Why.
        finish: Finish,
        /// The stop string that ended it.
        stop: Option<String>,
        /// What was held back until now.
        pieces: Vec<Piece>,
        /// What it took.
        stats: Box<Stats>,
        /// Ids inside a block of reasoning.
        reasoning: usize,
    },
}

/// Answers in work. Dropping it cancels them.
pub struct Running {
    events: UnboundedReceiver<(usize, Event)>,
    answers: Vec<InWork>,
    open: usize,
}

/// One answer in work.
struct InWork {
    parser: AnswerParser,
    /// Of the ids that come next.
    logprobs: Vec<TokenLogprobs>,
    observer: Observer,
    /// Dropping it cancels the answer.
    _ticket: Ticket,
}

/// Submits all answers of a generation. `facts` says whose they are.
///
/// # Errors
/// A full queue, stop strings that cannot be, a constraint that cannot be honoured.
pub async fn start(app: &App, generation: &Generation, facts: &RequestFacts) -> Result<Running, ApiError> {
    let (sender, events) = tokio::sync::mpsc::unbounded_channel();
    let model = &app.model;
    if app.settings.log_prompts {
        logs::prompt(&facts.id, &model.tokenizer.decode(&generation.prompt, false));
    }
    let mut answers = Vec::new();
    for (answer, mut guards) in guards::compile(app, generation).await?.into_iter().enumerate() {
        let parser = AnswerParser::new(&model.tokenizer, generation.format.clone())?;
        let AnswerFormat { stop, parallel, .. } = &generation.format;
        if !stop.is_empty() || !parallel {
            guards.add(EndGuard(parser.clone()));
        }
        let request = Request {
            stop_ids: model.stop_ids.clone(),
            guard: guards.boxed(),
            decoding: generation.decoding,
            sampling: generation.sampling.clone(),
            choice: answer as u32,
            logprobs: generation.logprobs,
            boundaries: generation.boundaries.clone(),
            shares: generation.shares,
            ..Request::new(generation.prompt.clone(), generation.max_tokens)
        };
        let sender = sender.clone();
        let ticket =
            model.engine.submit_to(request, Box::new(move |event| sender.send((answer, event)).is_ok()))?;
        let observer = app.metrics.observe(facts, answer, generation.decoding);
        answers.push(InWork { parser, logprobs: Vec::new(), observer, _ticket: ticket });
    }
    Ok(Running { events, open: answers.len(), answers })
}

impl Running {
    /// What happens next; `None` once every answer is finished.
    ///
    /// # Errors
    /// The failure of any answer, which ends them all.
    pub async fn next(&mut self) -> Result<Option<Update>, ApiError> {
        while self.open > 0 {
            let Some((answer, event)) = self.events.recv().await else {
                return Err(dflash_engine::EngineError::Stopped.into());
            };
            if let Some(update) = self.take(answer, event)? {
                return Ok(Some(update));
            }
        }
        Ok(None)
    }

    fn take(&mut self, answer: usize, event: Event) -> Result<Option<Update>, ApiError> {
        let InWork { parser, logprobs, observer, .. } = &mut self.answers[answer];
        observer.see(&event);
        let step = match event {
            Event::Admitted { .. } => return Ok(None),
            Event::PrefillProgress { done, total } => Step::Prefill { done, total },
            Event::Logprobs(told) => {
                *logprobs = told;
                return Ok(None);
            }
            Event::Tokens(ids) => {
                let pieces = ids.iter().flat_map(|&id| parser.push(id)).collect();
                Step::Tokens { ids, pieces, logprobs: std::mem::take(logprobs) }
            }
            Event::Cycle(cycle) => Step::Cycle(cycle),
            Event::Finished { reason, stats } => {
                self.open -= 1;
                let pieces = parser.finish();
                let finish = match reason {
                    FinishReason::Length => Finish::Length,
                    FinishReason::Stop if parser.calls() > 0 => Finish::ToolCalls,
                    FinishReason::Stop => Finish::Stop,
                };
                let reasoning = parser.reasoning_tokens();
                let stop = parser.stop_string().map(str::to_owned);
                Step::Finished { finish, stop, pieces, stats: Box::new(stats), reasoning }
            }
            Event::Failed(error) => return Err(error.into()),
        };
        Ok(Some(Update { answer, step }))
    }
}
