//! The thread pool: a parallel region every few microseconds, two hundred times a step.
//!
//! Workers spin for a moment after a region, since the next one follows at once while a model decodes, then
//! park. The caller takes part as thread 0. A thread that is done helps the others, so that on a busy host one
//! that does not run holds nobody up. A region within a region of the same pool would wait for itself.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

use crate::ahead;

/// Lines asked for on the way out of a region.
const BURST: usize = 32;

/// Spins before a worker parks: about a hundred microseconds.
const SPINS: usize = 20_000;

/// A region's body: called with the thread's number and some items.
type Body<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

/// Something on cache lines of its own: threads wait for one while others write the next.
#[repr(align(128))]
struct Line<T>(T);

/// A region, beside the count that tells of it, so that both come with one line.
struct Region {
    /// Counts regions; a worker looks for items when the count moves past what it has seen.
    epoch: AtomicUsize,
    body: UnsafeCell<*const Body<'static>>,
}

struct Shared {
    region: Line<Region>,
    /// What nobody has taken, of every thread's share.
    left: Vec<Line<Left>>,
    /// Items that are done.
    done: Line<AtomicUsize>,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: a body is `Sync`. It is written while there are no items, and read by those who have taken some, which
// `Pool::split` waits for.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

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
        let nothing: *const Body<'static> = &|_, _| {};
        let shared = Arc::new(Shared {
            region: Line(Region { epoch: AtomicUsize::new(0), body: UnsafeCell::new(nothing) }),
            left: (0..=workers).map(|_| Line(Left::default())).collect(),
            done: Line(AtomicUsize::new(0)),
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

    /// Calls `body(thread, piece)` with pieces that cover `0..items`. A thread works through its own [`share`] in
    /// order, so that memory is read in long streams, then helps others from the end of theirs.
    ///
    /// Returns when all items are done. A worker that the system does not run is not waited for.
    ///
    /// # Panics
    /// With the panic of `body`, when no thread works on the region any more; the pool stays usable.
    pub fn split(&self, items: usize, body: &Body<'_>) {
        if self.workers.is_empty() || items <= 1 {
            return if items > 0 {
                body(0, 0..items)
            };
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.open(items, body);
        work_on(&self.shared, 0);
        let mut spins = 0;
        while self.shared.done.0.load(Ordering::Acquire) != items {
            relax(&mut spins);
        }
        ahead::fetch_some(BURST);
        if let Some(payload) = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            resume_unwind(payload);
        }
    }

    /// Calls `body(thread, item)` for every item in `0..items`, in order, on whichever thread is free, so that
    /// items of unequal size even out.
    ///
    /// # Panics
    /// As [`Pool::split`].
    pub fn each(&self, items: usize, body: &(dyn Fn(usize, usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let all = || std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        self.split(items.min(self.threads()), &|thread, _| {
            all().take_while(|&item| item < items).for_each(|item| body(thread, item));
        });
    }

    fn open(&self, items: usize, body: &Body<'_>) {
        assert!(u32::try_from(items).is_ok(), "{items} items");
        // SAFETY: only the lifetime changes, and `split` does not return before all items are done.
        let body =
            unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(std::ptr::from_ref(body)) };
        let Shared { region, left, done, parked, .. } = &*self.shared;
        // SAFETY: there are no items, so nobody reads it.
        unsafe { *region.0.body.get() = body };
        done.0.store(0, Ordering::Relaxed);
        for (thread, left) in left.iter().enumerate() {
            left.0.put(share(items, thread, self.threads()));
        }
        // Sequentially consistent with the parked flag: either the worker sees the epoch or we see the flag.
        region.0.epoch.fetch_add(1, Ordering::SeqCst);
        for ((thread, _), parked) in self.workers.iter().zip(parked) {
            if parked.load(Ordering::SeqCst) {
                thread.unpark();
            }
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

/// Items that nobody has taken: the first in the low half, the end in the high half.
#[derive(Default)]
struct Left(AtomicU64);

impl Left {
    /// Releases what was written before, the body above all.
    fn put(&self, items: Range<usize>) {
        self.0.store(pack(&items), Ordering::Release);
    }

    /// Takes some of the items: large pieces first, so that they are few, then small ones, so that threads end
    /// together.
    fn take(&self, split: impl Fn(Range<usize>, usize) -> [Range<usize>; 2]) -> Option<Range<usize>> {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let items = unpack(now);
            if items.is_empty() {
                return None;
            }
            let half = items.len().div_ceil(2);
            let [own, rest] = split(items, half);
            match self.0.compare_exchange_weak(now, pack(&rest), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(own),
                Err(other) => now = other,
            }
        }
    }

    fn take_first(&self) -> Option<Range<usize>> {
        self.take(|all, half| [all.start..all.start + half, all.start + half..all.end])
    }

    fn take_last(&self) -> Option<Range<usize>> {
        self.take(|all, half| [all.end - half..all.end, all.start..all.end - half])
    }
}

fn pack(items: &Range<usize>) -> u64 {
    items.start as u64 | (items.end as u64) << 32
}

fn unpack(items: u64) -> Range<usize> {
    items as u32 as usize..(items >> 32) as usize
}

fn spawn(index: usize, shared: &Arc<Shared>) -> (Thread, Option<JoinHandle<()>>) {
    let shared = Arc::clone(shared);
    let handle = std::thread::Builder::new()
        .name(format!("dflash-cpu-{}", index + 1))
        .spawn(move || {
            let mut seen = 0;
            while next_region(index, &shared, &mut seen) {
                work_on(&shared, index + 1);
            }
        })
        .expect("the system gives a thread");
    (handle.thread().clone(), Some(handle))
}

/// Works until no items are left.
fn work_on(shared: &Shared, thread: usize) {
    let mut done = 0;
    while let Some(piece) = take(&shared.left, thread) {
        done += piece.len();
        // SAFETY: who has taken items of a region may read its body, which lives until they are done.
        let body = unsafe { &**shared.region.0.body.get() };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(thread, piece))) {
            *shared.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        }
    }
    if done > 0 {
        shared.done.0.fetch_add(done, Ordering::Release);
    }
}

fn take(left: &[Line<Left>], thread: usize) -> Option<Range<usize>> {
    let others = || (1..left.len()).map(|offset| &left[(thread + offset) % left.len()].0);
    left[thread].0.take_first().or_else(|| others().find_map(Left::take_last))
}

/// Waits for the next region; false when the pool stops.
fn next_region(index: usize, shared: &Shared, seen: &mut usize) -> bool {
    let epoch = &shared.region.0.epoch;
    let mut spins = 0;
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = epoch.load(Ordering::Acquire);
        if now != *seen {
            *seen = now;
            return true;
        }
        if spins < SPINS {
            relax(&mut spins);
            continue;
        }
        shared.parked[index].store(true, Ordering::SeqCst);
        if epoch.load(Ordering::SeqCst) == *seen && !shared.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        shared.parked[index].store(false, Ordering::SeqCst);
        spins = 0;
    }
}

/// One turn of a spin: now and then the core is offered to others, since hosts are shared.
fn relax(spins: &mut usize) {
    *spins += 1;
    if ahead::fetch_some(1) {
        return;
    }
    if spins.is_multiple_of(1024) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// The share of thread `thread` of `threads` of `0..items`: contiguous, equal to within one.
pub fn share(items: usize, thread: usize, threads: usize) -> Range<usize> {
    items * thread / threads..items * (thread + 1) / threads
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
    fn callers_take_turns_and_get_their_own_panics() {
        for threads in [2, 3, 8] {
            let pool = Pool::new(threads);
            let call = |caller: usize, round: usize| {
                let (items, fails) = ((round * 7 + caller) % 19, round % 20 == caller);
                let done: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                let body = |_: usize, piece: Range<usize>| {
                    done[piece].iter().for_each(|done| _ = done.fetch_add(1, Ordering::Relaxed));
                    assert!(!fails, "{caller} {round}");
                };
                let failed = catch_unwind(AssertUnwindSafe(|| pool.split(items, &body)));
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
                match failed {
                    Ok(()) => assert!(!fails || items == 0),
                    Err(payload) => {
                        assert_eq!(*payload.downcast::<String>().unwrap(), format!("{caller} {round}"));
                    }
                }
            };
            std::thread::scope(|scope| {
                (0..3).for_each(|caller| {
                    _ = scope.spawn(move || (0..500).for_each(|round| call(caller, round)))
                });
            });
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
