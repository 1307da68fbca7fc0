use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use crate::faults::guarded;
use crate::load::Gauges;
use crate::prefix::PrefixCache;
use crate::scratch::Scratch;
use crate::sequence::Sequence;
use crate::step::step;
use crate::ticket::Place;
use crate::{Decoder, EngineError, EngineOptions, Event, PrefixTier, Request};

/// Between two looks whether a state has come that everybody waits for.
const PAUSE: Duration = Duration::from_millis(1);

/// Takes the events of a request, on the engine's thread; false cancels the request.
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

/// Whose a sequence is.
struct Client {
    place: Arc<Place>,
    sink: Sink,
}

impl Client {
    /// Tells an event; false where nobody listens.
    fn tell(&mut self, event: Event) -> bool {
        !self.place.is_cancelled() && (self.sink)(event)
    }
}

/// The requests in the engine: those that wait, and those that are decoded side by side.
struct Worker<'a> {
    decoder: &'a Decoder,
    gauges: &'a Gauges,
    max_batch: usize,
    step_rows: usize,
    scratch: Scratch,
    prefix: Option<PrefixCache>,
    queue: VecDeque<Job>,
    seqs: Vec<Sequence>,
    /// One for each of these.
    clients: Vec<Client>,
}

/// Works until the last handle is gone and nothing is left to do.
pub(crate) fn work(
    decoder: &Decoder,
    inbox: &Receiver<Job>,
    gauges: &Gauges,
    options: EngineOptions,
    tier: Option<Box<dyn PrefixTier>>,
) {
    let _alive = Alive(gauges);
    let mut worker = Worker {
        decoder,
        gauges,
        max_batch: options.max_batch,
        step_rows: options.step_rows.unwrap_or_else(|| decoder.step_rows()).max(1),
        scratch: Scratch::new(decoder),
        prefix: options.prefix.map(|options| PrefixCache::new(options, tier, Arc::clone(&gauges.prefix))),
        queue: VecDeque::new(),
        seqs: Vec::with_capacity(options.max_batch),
        clients: Vec::with_capacity(options.max_batch),
    };
    while worker.take_in(inbox) {
        worker.drop_cancelled();
        worker.admit();
        worker.step();
    }
}

/// The worker runs as long as this lives.
struct Alive<'a>(&'a Gauges);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.alive.store(false, SeqCst);
    }
}

impl Worker<'_> {
    /// Takes what was submitted; waits for it only where there is nothing else to do. False at the end of all work.
    fn take_in(&mut self, inbox: &Receiver<Job>) -> bool {
        if self.seqs.is_empty() && self.queue.is_empty() {
            let Ok(job) = inbox.recv() else { return false };
            self.queue.push_back(job);
        }
        loop {
            match inbox.try_recv() {
                Ok(job) => self.queue.push_back(job),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn drop_cancelled(&mut self) {
        self.queue.retain(|job| !job.place.is_cancelled());
        for (seq, client) in self.seqs.iter_mut().zip(&self.clients) {
            seq.gone |= client.place.is_cancelled();
        }
        self.retire();
    }

    /// Lets requests in as long as there is room.
    fn admit(&mut self) {
        while self.seqs.len() < self.max_batch
            && let Some(Job { place, queued, task }) = self.queue.pop_front()
        {
            if !place.admit() {
                continue;
            }
            match task {
                Task::Decode(request, sink) => {
                    let client = Client { place, sink };
                    self.begin(*request, client, queued.elapsed().as_secs_f64());
                }
                Task::Logits(ids, reply) => {
                    self.gauges.begin_step();
                    let answer = guarded(|| self.decoder.logits_after(&ids)).unwrap_or_else(Err);
                    self.gauges.end_step();
                    place.leave();
                    // Whoever asked may have gone.
                    let _ = reply.send(answer);
                }
            }
        }
    }

    fn begin(&mut self, request: Request, mut client: Client, queued_s: f64) {
        let decoder = self.decoder;
        let shares = request.shares;
        let begun = guarded(|| {
            let seq = decoder.admit(request)?;
            let gone = !client.tell(Event::Admitted { queued_s });
            Ok(Sequence { gone, ..seq })
        });
        match begun.unwrap_or_else(Err) {
            Ok(mut seq) => {
                if let Some(prefix) = self.prefix.as_mut().filter(|_| shares) {
                    prefix.begin(decoder, &mut seq, &mut self.seqs);
                }
                self.seqs.push(seq);
                self.clients.push(client);
            }
            Err(error) => self.leave(client, Some(Event::Failed(error))),
        }
    }

    fn step(&mut self) {
        if self.seqs.is_empty() {
            return;
        }
        if self.seqs.iter().all(|seq| seq.awaits.is_some()) {
            std::thread::sleep(PAUSE);
        }
        self.gauges.begin_step();
        let Self { decoder, scratch, seqs, clients, .. } = self;
        step(decoder, scratch, seqs, self.step_rows, &mut |index, event| clients[index].tell(event));
        if let Some(prefix) = &mut self.prefix {
            prefix.keep(decoder, seqs);
        }
        self.gauges.end_step();
        self.retire();
    }

    /// Lets those go that are over.
    fn retire(&mut self) {
        let mut index = 0;
        while let Some(seq) = self.seqs.get(index) {
            if !seq.is_over() {
                index += 1;
                continue;
            }
            let (mut seq, client) = (self.seqs.remove(index), self.clients.remove(index));
            let end = match (seq.failed.take(), seq.finish.filter(|_| !seq.gone)) {
                (Some(error), _) => Some(Event::Failed(error)),
                (None, Some(reason)) => Some(Event::Finished { reason, stats: seq.end() }),
                (None, None) => None,
            };
            self.leave(client, end);
        }
    }

    /// Tells the end of a request, when its place is free for the next one; none where it was cancelled.
    fn leave(&mut self, mut client: Client, end: Option<Event>) {
        client.place.leave();
        match &end {
            Some(Event::Failed(EngineError::Fault(_))) => self.gauges.faults.fetch_add(1, Relaxed),
            None => self.gauges.cancelled.fetch_add(1, Relaxed),
            _ => 0,
        };
        if let Some(event) = end {
            // A consumer that left cannot be told.
            let _ = guarded(|| client.tell(event));
        }
    }
}
