use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use crate::load::Gauges;
use crate::ticket::Place;
use crate::{Decoder, EngineError, EngineOptions, Event, Request};

/// Takes the events of a request; false cancels it.
pub type Sink = Box<dyn FnMut(Event) -> bool + Send>;

/// What the worker is asked for.
pub(crate) enum Task {
    Decode(Box<Request>, Sink),
    Logits(Vec<u32>, Sender<Result<Vec<f32>, EngineError>>),
}

/// A task in the queue.
pub(crate) struct Job {
    place: Arc<Place>,
    queued: Instant,
    task: Task,
}

impl Job {
    pub fn new(place: Arc<Place>, task: Task) -> Self {
        Self { place, queued: Instant::now(), task }
    }
}

/// Until the last handle is gone.
pub(crate) fn work(decoder: &Decoder, inbox: &Receiver<Job>, gauges: &Gauges, _options: EngineOptions) {
    let mut scratch = decoder.scratch();
    while let Ok(Job { place, queued, task }) = inbox.recv() {
        if !place.admit() {
            continue;
        }
        match task {
            Task::Decode(request, mut sink) => {
                sink(Event::Admitted { queued_s: queued.elapsed().as_secs_f64() });
                gauges.begin_step();
                let mut emit = |event| {
                    gauges.end_step();
                    gauges.begin_step();
                    !place.is_cancelled() && sink(event)
                };
                let done = guarded(|| decoder.decode_with(&mut scratch, *request, &mut emit));
                gauges.end_step();
                place.leave();
                let done = done.unwrap_or_else(|fault| {
                    // What the panic left half-written in the scratch is thrown away with it.
                    scratch = decoder.scratch();
                    gauges.faults.fetch_add(1, Relaxed);
                    Err(fault)
                });
                if let Err(error) = done {
                    // A consumer that left cannot be told.
                    sink(Event::Failed(error));
                }
            }
            Task::Logits(ids, reply) => {
                let answer = guarded(|| decoder.logits_after(&ids)).unwrap_or_else(Err);
                place.leave();
                let _ = reply.send(answer);
            }
        }
    }
    gauges.alive.store(false, SeqCst);
}

/// A panic costs one request, not the process.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        EngineError::Fault(text.unwrap_or_else(|| "unknown panic".to_owned()))
    })
}
