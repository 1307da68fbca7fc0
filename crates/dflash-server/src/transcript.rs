use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use dflash_engine::Stats;
use futures_util::stream;
use serde_json::Value;

use crate::ApiError;
use crate::generation::{Finish, Piece, Running, Step, Update};

/// An answer as it is told in typed events. What was streamed and the complete answer cannot differ, since both come
/// out of the same transcript: an answer that is not streamed leaves the events unsent.
///
/// Every event is an object whose `type` is also its name in the stream.
pub trait Transcript: Send + 'static {
    /// Events before the first id.
    fn begin(&mut self) -> Vec<Value>;
    /// Events of more text.
    fn pieces(&mut self, pieces: Vec<Piece>) -> Vec<Value>;
    /// Events of the end.
    fn end(&mut self, end: &End) -> Vec<Value>;
    /// Events of an end by failure.
    fn fail(&mut self, error: ApiError) -> Vec<Value>;
    /// Events that say no more than that the request is alive.
    fn idle(&mut self) -> Vec<Value>;
}

/// How an answer ended.
#[derive(Debug)]
pub struct End {
    /// Why.
    pub finish: Finish,
    /// The stop string that ended it.
    pub stop: Option<String>,
    /// What it took.
    pub stats: Box<Stats>,
    /// Ids inside a block of reasoning.
    pub reasoning: usize,
}

/// Waits for the end of an answer.
///
/// # Errors
/// The failure of the answer.
pub async fn complete(mut running: Running, transcript: &mut impl Transcript) -> Result<(), ApiError> {
    transcript.begin();
    while let Some(update) = running.next().await? {
        take(transcript, update);
    }
    Ok(())
}

/// Streams an answer. After `silence` without an event it is told that the request is alive.
pub fn stream(running: Running, mut transcript: impl Transcript, silence: Duration) -> Response {
    let ready = transcript.begin().into();
    let telling = Telling { running: Some(running), transcript, ready, silence };
    let events = stream::unfold(telling, |mut telling| async move {
        let value = telling.next().await?;
        Some((Ok::<_, Infallible>(event(&value)), telling))
    });
    Sse::new(events).into_response()
}

/// An answer half told.
struct Telling<T> {
    /// `None` once the answer has ended.
    running: Option<Running>,
    transcript: T,
    /// Events that wait to be sent.
    ready: VecDeque<Value>,
    silence: Duration,
}

impl<T: Transcript> Telling<T> {
    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            let running = self.running.as_mut()?;
            let events = match tokio::time::timeout(self.silence, running.next()).await {
                Err(_) => self.transcript.idle(),
                Ok(Ok(Some(update))) => take(&mut self.transcript, update),
                Ok(Ok(None)) => {
                    self.running = None;
                    Vec::new()
                }
                Ok(Err(error)) => {
                    self.running = None;
                    self.transcript.fail(error)
                }
            };
            self.ready.extend(events);
        }
        self.ready.pop_front()
    }
}

fn take(transcript: &mut impl Transcript, update: Update) -> Vec<Value> {
    match update.step {
        Step::Tokens { pieces, .. } => transcript.pieces(pieces),
        Step::Finished { finish, stop, pieces, stats, reasoning } => {
            let mut events = transcript.pieces(pieces);
            events.extend(transcript.end(&End { finish, stop, stats, reasoning }));
            events
        }
        Step::Prefill { .. } | Step::Cycle(_) => Vec::new(),
    }
}

fn event(value: &Value) -> Event {
    Event::default().event(value["type"].as_str().unwrap_or_default()).data(value.to_string())
}
