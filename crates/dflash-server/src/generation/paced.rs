use std::time::Duration;

use futures_util::stream::{self, Stream};
use tokio::time::Instant;

use super::{Answer, Running, Step, Update, collect};
use crate::life::Phase;
use crate::{ApiError, App, Kind};

/// What a stream has to say next.
#[derive(Debug)]
pub enum Beat {
    /// Something happened to an answer.
    Update(Update),
    /// Nothing to tell for a while: the client must hear that the server lives.
    Silence {
        /// Prompt ids that were read so far.
        done: usize,
        /// Of so many.
        total: usize,
    },
    /// Every answer is finished.
    End,
}

/// Answers in work, within the time of a request and never silent for long. Dropping it cancels them.
pub struct Paced {
    app: App,
    running: Running,
    prefill: (usize, usize),
    told: Instant,
    deadline: Option<Instant>,
}

impl Paced {
    /// From now on.
    pub fn new(app: &App, running: Running) -> Self {
        let now = Instant::now();
        let deadline = app.settings.request_timeout.map(|limit| now + limit);
        Self { app: app.clone(), running, prefill: (0, 0), told: now, deadline }
    }

    /// As a stream, which ends after [`Beat::End`] or an error.
    pub fn beats(self) -> impl Stream<Item = Result<Beat, ApiError>> {
        stream::unfold(Some(self), |paced| async move {
            let mut paced = paced?;
            let beat = paced.next().await;
            let goes_on = matches!(beat, Ok(Beat::Update(_) | Beat::Silence { .. }));
            Some((beat, goes_on.then_some(paced)))
        })
    }

    /// What happens next.
    ///
    /// # Errors
    /// The failure of any answer, the time of the request over, the server ending.
    pub async fn next(&mut self) -> Result<Beat, ApiError> {
        loop {
            let silence = self.told + self.app.settings.keep_alive;
            tokio::select! {
                biased;
                update = self.running.next() => match update? {
                    Some(Update { step: Step::Prefill { done, total }, .. }) => {
                        self.prefill = (done, total);
                        continue;
                    }
                    Some(update) => {
                        if speaks(&update.step) {
                            self.told = Instant::now();
                        }
                        return Ok(Beat::Update(update));
                    }
                    None => return Ok(Beat::End),
                },
                () = self.app.life.reached(Phase::Ending) => return Err(ending()),
                () = until(self.deadline) => return Err(too_long(self.app.settings.request_timeout)),
                () = tokio::time::sleep_until(silence) => {
                    self.told = Instant::now();
                    let (done, total) = self.prefill;
                    return Ok(Beat::Silence { done, total });
                }
            }
        }
    }
}

/// Waits for all answers, within the time of a request.
///
/// # Errors
/// As [`Paced::next`].
pub async fn collect_in_time(app: &App, running: Running, answers: u32) -> Result<Vec<Answer>, ApiError> {
    let deadline = app.settings.request_timeout.map(|limit| Instant::now() + limit);
    tokio::select! {
        biased;
        answers = collect(running, answers) => answers,
        () = app.life.reached(Phase::Ending) => Err(ending()),
        () = until(deadline) => Err(too_long(app.settings.request_timeout)),
    }
}

/// Whether clients hear of it; text may be held back for long.
fn speaks(step: &Step) -> bool {
    match step {
        Step::Tokens { pieces, .. } => !pieces.is_empty(),
        Step::Finished { .. } => true,
        Step::Prefill { .. } | Step::Cycle(_) => false,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn ending() -> ApiError {
    ApiError::new(Kind::Unavailable, "the server ends; send the request again later").code("shutting_down")
}

fn too_long(limit: Option<Duration>) -> ApiError {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    let message = format!(
        "the request took longer than {seconds} seconds: lower max_tokens, or raise --request-timeout"
    );
    ApiError::new(Kind::Timeout, message).code("request_timeout")
}
