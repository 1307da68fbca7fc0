use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::Builder;

use crate::{Decoder, EngineError, Event, Request};

/// Events of a submitted request. Dropping it cancels the request.
pub type Submission = Receiver<Event>;

enum Job {
    Decode(Box<Request>, Sender<Event>),
    Logits(Vec<u32>, Sender<Result<Vec<f32>, EngineError>>),
}

/// The way to the worker thread that owns models and caches. Clones share it; the thread ends with the last.
#[derive(Clone)]
pub struct EngineHandle {
    jobs: SyncSender<Job>,
    waiting: usize,
}

impl EngineHandle {
    /// Starts the worker; at most `waiting` requests queue up behind the one in work.
    pub fn start(decoder: Decoder, waiting: usize) -> Self {
        let (jobs, inbox) = sync_channel(waiting);
        // Detached: the thread ends when the last handle is dropped.
        Builder::new()
            .name("dflash-engine".into())
            .spawn(move || work(&decoder, &inbox))
            .expect("the system gives a thread");
        Self { jobs, waiting }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when the queue is full, [`EngineError::Stopped`] after a fatal fault.
    pub fn submit(&self, request: Request) -> Result<Submission, EngineError> {
        let (events, submission) = channel();
        self.send(Job::Decode(Box::new(request), events))?;
        Ok(submission)
    }

    /// Logits of the position after `ids`, computed afresh by plain prefill.
    ///
    /// # Errors
    /// As [`EngineHandle::submit`], and a prompt that cannot be continued.
    pub fn logits_after(&self, ids: Vec<u32>) -> Result<Vec<f32>, EngineError> {
        let (reply, answer) = channel();
        self.send(Job::Logits(ids, reply))?;
        answer.recv().map_err(|_| EngineError::Stopped)?
    }

    fn send(&self, job: Job) -> Result<(), EngineError> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => EngineError::Busy { waiting: self.waiting },
            TrySendError::Disconnected(_) => EngineError::Stopped,
        })
    }
}

fn work(decoder: &Decoder, inbox: &Receiver<Job>) {
    let mut scratch = decoder.scratch();
    while let Ok(job) = inbox.recv() {
        match job {
            Job::Decode(request, events) => {
                let mut emit = |event| events.send(event).is_ok();
                let done = guarded(|| decoder.decode_with(&mut scratch, *request, &mut emit)).unwrap_or_else(
                    |fault| {
                        // What the panic left half-written in the scratch is thrown away with it.
                        scratch = decoder.scratch();
                        Err(fault)
                    },
                );
                if let Err(error) = done {
                    // A consumer that left cannot be told.
                    let _ = events.send(Event::Failed(error));
                }
            }
            Job::Logits(ids, reply) => {
                let answer = guarded(|| decoder.logits_after(&ids)).unwrap_or_else(Err);
                let _ = reply.send(answer);
            }
        }
    }
}

/// A panic costs one request, not the process.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        EngineError::Fault(text.unwrap_or_else(|| "unknown panic".to_owned()))
    })
}
