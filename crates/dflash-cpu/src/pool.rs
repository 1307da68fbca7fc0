//! The thread pool: a parallel region every few microseconds, two hundred times a step.
//!
//! Workers spin for a moment after a region, since the next one follows at once while a model decodes, then
//! park. The caller takes part as thread 0.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};

/// Spins before a worker parks: about a hundred microseconds.
const SPINS: usize = 20_000;

/// A region's body: called once per thread with the thread's number.
type Body<'a> = dyn Fn(usize) + Sync + 'a;

struct Shared {
    /// Counts regions; a worker runs a region when the count moves past what it has seen.
    epoch: AtomicUsize,
    /// Workers that have not finished the current region.
    busy: AtomicUsize,
    body: Mutex<Option<Region>>,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

#[derive(Clone, Copy)]
struct Region(*const Body<'static>);

// SAFETY: the pointee is `Sync`, and `Pool::run` keeps it alive until no worker uses it.
unsafe impl Send for Region {}

/// Threads that run a closure together.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(Thread, Option<JoinHandle<()>>)>,
    /// One region at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller of [`Pool::run`] included.
    pub fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            body: Mutex::new(None),
            stop: AtomicBool::new(false),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
        });
        let workers = (0..workers).map(|index| spawn(index, &shared)).collect();
        Self { shared, workers, turn: Mutex::new(()) }
    }

    /// Threads that take part in a region.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `body(thread)` on every thread, `0..threads`, and returns when all are done.
    ///
    /// # Panics
    /// With the panic of `body`, after all threads are done; the pool stays usable.
    pub fn run(&self, body: &Body<'_>) {
        if self.workers.is_empty() {
            return body(0);
        }
        let _turn = self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.start(body);
        let own = catch_unwind(AssertUnwindSafe(|| body(0)));
        self.wait();
        let theirs = self.shared.panic.lock().expect("no panic while held").take();
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
    }

    fn start(&self, body: &Body<'_>) {
        // SAFETY: only the lifetime changes, and `run` does not return before every worker is done with it.
        let region = Region(unsafe {
            std::mem::transmute::<*const Body<'_>, *const Body<'static>>(std::ptr::from_ref(body))
        });
        *self.shared.body.lock().expect("no panic while held") = Some(region);
        self.shared.busy.store(self.workers.len(), Ordering::Relaxed);
        // Sequentially consistent with the parked flag: either the worker sees the epoch or we see the flag.
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for ((thread, _), parked) in self.workers.iter().zip(&self.shared.parked) {
            if parked.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
    }

    fn wait(&self) {
        let mut spins = 0;
        while self.shared.busy.load(Ordering::Acquire) != 0 {
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
        let region = shared.body.lock().expect("no panic while held").expect("a region was started");
        // SAFETY: `Pool::run` keeps the body alive until `busy` is zero, which this thread decrements below.
        let body = unsafe { &*region.0 };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(index + 1))) {
            *shared.panic.lock().expect("no panic while held") = Some(payload);
        }
        shared.busy.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for the next region; false when the pool stops.
fn next_region(index: usize, shared: &Shared, seen: &mut usize) -> bool {
    let mut spins = 0;
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return false;
        }
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch != *seen {
            *seen = epoch;
            return true;
        }
        if spins < SPINS {
            relax(&mut spins);
            continue;
        }
        shared.parked[index].store(true, Ordering::SeqCst);
        if shared.epoch.load(Ordering::SeqCst) == *seen && !shared.stop.load(Ordering::SeqCst) {
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

/// The share of `thread` in `0..items`: contiguous, equal to within one.
pub fn share(items: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    items * thread / threads..items * (thread + 1) / threads
}

/// Ranges of `step` items that cover `range`, the last one shorter.
pub fn steps(range: std::ops::Range<usize>, step: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = range.end;
    range.step_by(step).map(move |first| first..(first + step).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_every_region_once() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..500 {
                pool.run(&|thread| {
                    counts[thread].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 500));
        }
    }

    #[test]
    fn a_parked_worker_wakes_up() {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        for _ in 0..5 {
            while !pool.shared.parked[0].load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(3);
        for culprit in 0..3 {
            let failed = catch_unwind(AssertUnwindSafe(|| pool.run(&|thread| assert!(thread != culprit))));
            assert!(failed.is_err());
            pool.run(&|_| {});
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        for (items, threads) in [(0, 2), (1, 2), (9, 2), (9, 7), (64, 3)] {
            let all: Vec<usize> = (0..threads).flat_map(|t| share(items, t, threads)).collect();
            assert!(all.into_iter().eq(0..items));
        }
    }
}
