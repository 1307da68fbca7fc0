use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use dflash_engine::Stats;
use futures_util::stream;
use serde_json::Value;

use crate::generation::{Beat, Finish, Generation, Paced, Piece, Running, Step, Summary, Update};
use crate::{ApiError, App};

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
    fn end(&mut self, end: End) -> Vec<Value>;
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
    /// The stop string that did it.
    pub stop: Option<String>,
    /// What it took.
    pub stats: Box<Stats>,
    /// Ids inside a block of reasoning.
    pub reasoning: usize,
    /// What speculation did.
    pub summary: Value,
}

/// An answer in work, and what is told of it.
pub struct Telling<T> {
    /// `None` once the answer has ended.
    running: Option<Paced>,
    transcript: T,
    summary: Summary,
    /// The seed in use, where the ids depend on it.
    seed: Option<u64>,
}

impl<T: Transcript> Telling<T> {
    /// From the first id on.
    pub fn new(app: &App, running: Running, generation: &Generation, transcript: T) -> Self {
        let seed = generation.seed();
        Self { running: Some(Paced::new(app, running)), transcript, summary: Summary::default(), seed }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The failure of the answer.
    pub async fn complete(mut self) -> Result<T, ApiError> {
        while let Some(running) = &mut self.running {
            let beat = running.next().await?;
            self.take(beat);
        }
        Ok(self.transcript)
    }

    /// Streams the events.
    pub fn stream(mut self) -> Response {
        let begin = VecDeque::from(self.transcript.begin());
        let events = stream::unfold((self, begin), |(mut telling, mut ready)| async move {
            while ready.is_empty() {
                ready.extend(telling.next().await?);
            }
            let event = event(&ready.pop_front()?);
            Some((Ok::<_, Infallible>(event), (telling, ready)))
        });
        Sse::new(events).into_response()
    }

    /// The next events; `None` after the last ones.
    async fn next(&mut self) -> Option<Vec<Value>> {
        match self.running.as_mut()?.next().await {
            Ok(beat) => Some(self.take(beat)),
            Err(error) => {
                self.running = None;
                Some(self.transcript.fail(error))
            }
        }
    }

    fn take(&mut self, beat: Beat) -> Vec<Value> {
        match beat {
            Beat::Update(Update { step, .. }) => self.step(step),
            Beat::Silence { .. } => self.transcript.idle(),
            Beat::End => {
                self.running = None;
                Vec::new()
            }
        }
    }

    fn step(&mut self, step: Step) -> Vec<Value> {
        match step {
            Step::Tokens { ids, pieces, .. } => {
                self.summary.add_ids(&ids);
                self.transcript.pieces(pieces)
            }
            Step::Finished { finish, stop, pieces, stats, reasoning } => {
                self.summary.add_stats(&stats);
                let summary = self.summary.to_json(self.seed);
                let mut events = self.transcript.pieces(pieces);
                events.extend(self.transcript.end(End { finish, stop, stats, reasoning, summary }));
                events
            }
            Step::Prefill { .. } | Step::Cycle(_) => Vec::new(),
        }
    }
}

fn event(value: &Value) -> Event {
    Event::default().event(value["type"].as_str().unwrap_or_default()).data(value.to_string())
}
