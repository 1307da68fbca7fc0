use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::Value;

use super::OpenAiError;
use crate::generation::{Beat, Paced, Step, Update};
use crate::{ApiError, sse};

/// How an API object writes what happens to its choices.
pub trait Chunks: Send + 'static {
    /// Before anything happens.
    fn begin(&mut self) -> Vec<Value>;
    /// Something happened to a choice.
    fn step(&mut self, choice: usize, step: Step) -> Vec<Value>;
    /// A chunk that says nothing.
    fn silence(&self) -> Value;
    /// After everything.
    fn end(&mut self) -> Vec<Value>;
}

/// The response that streams the answers to all prompts: prompt *i* has the choices from `i * answers` on.
pub fn respond(prompts: Vec<Paced>, answers: usize, chunks: impl Chunks) -> Response {
    let numbered = prompts.into_iter().enumerate().map(|(index, paced)| {
        let first = index * answers;
        paced.beats().map(move |beat| (first, beat)).boxed()
    });
    let writer = Writer { beats: stream::select_all(numbered), chunks, ready: VecDeque::new(), over: false };
    sse::stream(writer.begun().events())
}

struct Writer<B, C> {
    /// Of each prompt, with the number of its first choice.
    beats: B,
    chunks: C,
    ready: VecDeque<Event>,
    over: bool,
}

impl<B, C> Writer<B, C>
where
    B: Stream<Item = (usize, Result<Beat, ApiError>)> + Send + Unpin + 'static,
    C: Chunks,
{
    fn begun(mut self) -> Self {
        let chunks = self.chunks.begin();
        self.send(chunks);
        self
    }

    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        stream::unfold(self, |mut writer| async move {
            while writer.ready.is_empty() && !writer.over {
                let beat = writer.beats.next().await;
                writer.take(beat);
            }
            let event = writer.ready.pop_front()?;
            Some((Ok(event), writer))
        })
    }

    fn take(&mut self, beat: Option<(usize, Result<Beat, ApiError>)>) {
        match beat {
            Some((first, Ok(Beat::Update(Update { answer, step })))) => {
                let chunks = self.chunks.step(first + answer, step);
                self.send(chunks);
            }
            Some((_, Ok(Beat::Silence { done, total }))) => {
                let comment = Event::default().comment(format!("keepalive {done}/{total}"));
                self.ready.push_back(comment.data(self.chunks.silence().to_string()));
            }
            Some((_, Ok(Beat::End))) => {}
            Some((_, Err(error))) => {
                self.send(vec![OpenAiError(error).body()]);
                self.over = true;
            }
            None => {
                let chunks = self.chunks.end();
                self.send(chunks);
                self.ready.push_back(Event::default().data("[DONE]"));
                self.over = true;
            }
        }
    }

    fn send(&mut self, chunks: Vec<Value>) {
        self.ready.extend(chunks.iter().map(|chunk| Event::default().data(chunk.to_string())));
    }
}
