//! The thread pool: a parallel region every few microseconds, two hundred times a step.
//!
//! Workers spin for a moment after a region, since the next one follows at once while a model decodes, then
//! park. The caller takes part as thread 0. A free thread takes the
//! next piece, so that on a busy host a thread that does not run holds nobody up.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Spins before a worker parks: about a hundred microseconds.
const SPINS: usize = 20_000;

/// Set in [`Shared::gate`] while no worker may enter the region.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// A region's body: called once per piece with the thread's number and the piece's items.
type Body<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

/// A counter on cache lines of its own: threads spin on one while others count on the next.
#[repr(align(128))]
struct Counter(AtomicUsize);

struct Shared {
    /// Counts regions; a worker looks at the gate when the count moves past what it has seen.
    epoch: Counter,
    /// Workers inside the region, and [`CLOSED`].
    gate: Counter,
    /// The next piece that nobody has taken.
    next: Counter,
    region: Mutex<Option<Region>>,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy)]
struct Region {
    body: *const Body<'static>,
    items: usize,
    pieces: usize,
}

// SAFETY: the body is `Sync`, and `Pool::run` keeps it alive while a worker is inside.
unsafe impl Send for Region {}

/// Threads that share out a range of items.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(Thread, Option<JoinHandle<()>>)>,
    /// One region at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included.
    pub fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            epoch: Counter(AtomicUsize::new(0)),
            gate: Counter(AtomicUsize::new(CLOSED)),
            next: Counter(AtomicUsize::new(0)),
            region: Mutex::new(None),
            stop: AtomicBool::new(false),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
        });
        let workers = (0..workers).map(|index| spawn(index, &shared)).collect();
        Self { shared, workers, turn: Mutex::new(()) }
    }

    /// Threads that may take part in a region.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Cuts `0..items` into one contiguous piece per thread, so that memory is read in long streams, and calls
    /// `body(thread, piece)` for each.
    ///
    /// # Panics
    /// As [`Pool::each`].
    pub fn split(&self, items: usize, body: &Body<'_>) {
        self.run(items, items.min(self.threads()), body);
    }

    /// Calls `body(thread, item)` for every item in `0..items` on whichever thread is free, so that items of
    /// unequal size even out.
    ///
    /// # Panics
    /// With the panic of `body`, when no thread works on the region any more; the pool stays usable.
    pub fn each(&self, items: usize, body: &(dyn Fn(usize, usize) + Sync)) {
        self.run(items, items, &|thread, piece| piece.for_each(|item| body(thread, item)));
    }

    /// Returns when all pieces are done. A worker that the system does not run is not waited for.
    fn run(&self, items: usize, pieces: usize, body: &Body<'_>) {
        if self.workers.is_empty() || pieces <= 1 {
            return if items > 0 {
                body(0, 0..items)
            };
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let region = self.open(body, items, pieces);
        let own = catch_unwind(AssertUnwindSafe(|| take_pieces(&self.shared, region, 0)));
        self.close();
        let theirs = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
    }

    fn open(&self, body: &Body<'_>, items: usize, pieces: usize) -> Region {
        // SAFETY: only the lifetime changes, and `run` does not return while a worker is inside.
        let body =
            unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(std::ptr::from_ref(body)) };
        let region = Region { body, items, pieces };
        *self.shared.region.lock().unwrap_or_else(PoisonError::into_inner) = Some(region);
        self.shared.next.0.store(0, Ordering::Relaxed);
        // Not a store: a worker that came late to the last region may be about to leave the count.
        self.shared.gate.0.fetch_and(!CLOSED, Ordering::Release);
        // Sequentially consistent with the parked flag: either the worker sees the epoch or we see the flag.
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        for ((thread, _), parked) in self.workers.iter().zip(&self.shared.parked) {
            if parked.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        region
    }

    /// Lets no further worker in and waits for those inside.
    fn close(&self) {
        self.shared.gate.0.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        while self.shared.gate.0.load(Ordering::Acquire) != CLOSED {
            relax(&mut spins);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (thread, handle) in &mut self.workers {
            thread.unpark();
            if let Some(handle) = handle.take() {
                // A worker never unwinds: bodies are caught.
                let _ = handle.join();
            }
        }
    }
}

fn spawn(index: usize, shared: &Arc<Shared>) -> (Thread, Option<JoinHandle<()>>) {
    let shared = Arc::clone(shared);
    let handle = std::thread::Builder::new()
        .name(format!("dflash-cpu-{}", index + 1))
        .spawn(move || work(index, &shared))
        .expect("the system gives a thread");
    (handle.thread().clone(), Some(handle))
}

fn work(index: usize, shared: &Shared) {
    let mut seen = 0;
    while next_region(index, shared, &mut seen) {
        // Acquire sees all that `open` wrote before it opened the gate.
        if shared.gate.0.fetch_add(1, Ordering::Acquire) & CLOSED == 0 {
            let region =
                shared.region.lock().unwrap_or_else(PoisonError::into_inner).expect("an open region");
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| take_pieces(shared, region, index + 1))) {
                *shared.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
            }
        }
        shared.gate.0.fetch_sub(1, Ordering::Release);
    }
}

/// Works on the region until no piece is left.
fn take_pieces(shared: &Shared, region: Region, thread: usize) {
    // SAFETY: the caller of `split`, or a worker inside the gate, which `split` waits for.
    let body = unsafe { &*region.body };
    loop {
        let piece = shared.next.0.fetch_add(1, Ordering::Relaxed);
        if piece >= region.pieces {
            return;
        }
        body(thread, share(region.items, piece, region.pieces));
    }
}

/// Waits for the next region; false when the pool stops.
fn next_region(index: usize, shared: &Shared, seen: &mut usize) -> bool {
    let mut spins = 0;
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return false;
        }
        let epoch = shared.epoch.0.load(Ordering::Acquire);
        if epoch != *seen {
            *seen = epoch;
            return true;
        }
        if spins < SPINS {
            relax(&mut spins);
            continue;
        }
        shared.parked[index].store(true, Ordering::SeqCst);
        if shared.epoch.0.load(Ordering::SeqCst) == *seen && !shared.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        shared.parked[index].store(false, Ordering::SeqCst);
        spins = 0;
    }
}

/// One turn of a spin: now and then the core is offered to others, since hosts are shared.
fn relax(spins: &mut usize) {
    *spins += 1;
    if spins.is_multiple_of(1024) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Piece `piece` of `pieces` of `0..items`: contiguous, equal to within one.
fn share(items: usize, piece: usize, pieces: usize) -> Range<usize> {
    items * piece / pieces..items * (piece + 1) / pieces
}

/// Ranges of `step` items that cover `range`, the last one shorter.
pub fn steps(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(step).map(move |first| first..(first + step).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            for items in [0, 1, 2, 5, 100] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..200 {
                    pool.split(items, &|thread, piece| {
                        assert!(thread < threads);
                        counts[piece].iter().for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
                    });
                    pool.each(items, &|_, item| _ = counts[item].fetch_add(1, Ordering::Relaxed));
                }
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 400));
            }
        }
    }

    #[test]
    fn a_parked_worker_wakes_up() {
        let pool = Pool::new(2);
        for _ in 0..5 {
            while !pool.shared.parked[0].load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // The caller's piece ends when the worker has taken another one.
            let helped = AtomicBool::new(false);
            pool.each(8, &|thread, _| match thread {
                0 => {
                    while !helped.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                }
                _ => helped.store(true, Ordering::SeqCst),
            });
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(3);
        for culprit in 0..12 {
            let body =
                |_: usize, piece: Range<usize>| assert!(!piece.contains(&culprit), "in piece {culprit}");
            let failed = catch_unwind(AssertUnwindSafe(|| pool.split(12, &body)));
            let text = *failed.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(text, format!("in piece {culprit}"));
            let done = AtomicUsize::new(0);
            pool.split(12, &|_, piece| _ = done.fetch_add(piece.len(), Ordering::Relaxed));
            assert_eq!(done.into_inner(), 12);
        }
    }

    #[test]
    fn pieces_cover_everything_once() {
        for (items, pieces) in [(0, 2), (1, 2), (9, 2), (9, 7), (64, 3)] {
            let all: Vec<usize> = (0..pieces).flat_map(|piece| share(items, piece, pieces)).collect();
            assert!(all.into_iter().eq(0..items));
        }
    }
}
