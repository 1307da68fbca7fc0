use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::load::Gauges;
use crate::ticket::Place;
use crate::worker::{Job, Sink, Task, work};
use crate::{
    Decoder, EngineError, Load, PrefixOptions, PrefixStats, PrefixTier, Request, Submission, Ticket,
};

/// How an engine shares its steps; none of it changes an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Requests that are decoded side by side at most; at least one.
    pub max_batch: usize,
    /// Requests that may wait behind those.
    pub waiting: usize,
    /// Prompt rows of a step at most while anything decodes; `None` for as many as take about a plain step's time.
    pub step_rows: Option<usize>,
    /// What is kept of prompts and answers for requests that begin alike; `None` for nothing.
    pub prefix: Option<PrefixOptions>,
}

/// The way to the worker thread that owns models and caches. Clones share it; the thread ends with the last, when all
/// requests are done.
#[derive(Clone)]
pub struct EngineHandle {
    jobs: Sender<Job>,
    gauges: Arc<Gauges>,
    options: EngineOptions,
}

impl EngineHandle {
    /// Starts the worker.
    pub fn start(decoder: Decoder, options: EngineOptions) -> Self {
        Self::start_with(decoder, options, None)
    }

    /// Starts the worker with a slower tier behind the states that are kept in memory.
    pub fn start_with(decoder: Decoder, options: EngineOptions, tier: Option<Box<dyn PrefixTier>>) -> Self {
        let options = EngineOptions { max_batch: options.max_batch.max(1), ..options };
        let (jobs, inbox) = channel();
        let gauges = Arc::new(Gauges::new());
        let shared = Arc::clone(&gauges);
        // Detached: the thread ends when the last handle is dropped.
        Builder::new()
            .name("dflash-engine".into())
            .spawn(move || work(&decoder, &inbox, &shared, options, tier))
            .expect("the system gives a thread");
        Self { jobs, gauges, options }
    }

    /// Queues a request whose events a consumer waits for.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when the queue is full, [`EngineError::Stopped`] after a fatal fault.
    pub fn submit(&self, request: Request) -> Result<Submission, EngineError> {
        let (sender, events) = channel();
        let ticket = self.submit_to(request, Box::new(move |event| sender.send(event).is_ok()))?;
        Ok(Submission { events, _ticket: ticket })
    }

    /// Queues a request whose events go to `sink`, on the worker's thread: it should not wait. False from it cancels the
    /// request, as dropping the ticket does.
    ///
    /// # Errors
    /// As [`EngineHandle::submit`].
    pub fn submit_to(&self, request: Request, sink: Sink) -> Result<Ticket, EngineError> {
        Ok(Ticket(self.send(Task::Decode(Box::new(request), sink))?))
    }

    /// Logits of the position after `ids`, computed afresh by plain prefill.
    ///
    /// # Errors
    /// As [`EngineHandle::submit`], and a prompt that cannot be continued.
    pub fn logits_after(&self, ids: Vec<u32>) -> Result<Vec<f32>, EngineError> {
        let (reply, answer) = channel();
        self.send(Task::Logits(ids, reply))?;
        answer.recv().map_err(|_| EngineError::Stopped)?
    }

    /// What the engine does at this moment. The worker is not asked, so it answers when that hangs.
    pub fn load(&self) -> Load {
        self.gauges.load()
    }

    /// What the prefix cache did and holds.
    pub fn prefix_stats(&self) -> PrefixStats {
        self.gauges.prefix.stats()
    }

    /// Tells when the engine has ended.
    pub fn end(&self) -> EngineEnd {
        EngineEnd(Arc::clone(&self.gauges))
    }

    /// The options.
    pub fn options(&self) -> EngineOptions {
        self.options
    }

    fn send(&self, task: Task) -> Result<Arc<Place>, EngineError> {
        let EngineOptions { max_batch, waiting, .. } = self.options;
        if !self.gauges.enter(max_batch + waiting) {
            return Err(EngineError::Busy { waiting });
        }
        let place = Place::new(Arc::clone(&self.gauges));
        self.jobs.send(Job::new(Arc::clone(&place), task)).map_err(|_| EngineError::Stopped)?;
        Ok(place)
    }
}

/// Tells when an engine has ended, without keeping it running.
pub struct EngineEnd(Arc<Gauges>);

impl EngineEnd {
    /// Waits until all work is done, what is to be written included, or `most` is over; whether it is done.
    pub fn wait(&self, most: Duration) -> bool {
        let began = Instant::now();
        while self.0.load().alive && began.elapsed() < most {
            std::thread::sleep(Duration::from_millis(2));
        }
        !self.0.load().alive
    }
}
