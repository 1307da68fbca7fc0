//! Steps allocate nothing once their buffers have grown, on any thread.
//!
//! Only what stays is new: the K/V block of the next 64 positions, the ids of an event, now and then the room of
//! an index of the context. One test, because the count is that of the whole process.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::cases::Case;
use common::truth::draft_for;
use common::{BLOCK, options, prompt};
use dflash_cpu::{CpuBackend, Isa};
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Decoder, Event, Proposer, Request, VerifyMode};
use dflash_models::{DraftOptions, Taps, Target, Workspace, load_target};
use dflash_tensor::{BLOCK_POSITIONS, Batch, Choice, SeqCache, Shape};
use dflash_testkit::TinyDraft;

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where they came from.
static PLACES: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());

fn count() {
    // A backtrace allocates too.
    if COUNTING.swap(false, Ordering::SeqCst) {
        COUNT.fetch_add(1, Ordering::SeqCst);
        PLACES.lock().unwrap().push(Backtrace::force_capture());
        COUNTING.store(true, Ordering::SeqCst);
    }
}

// SAFETY: everything is the system's allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn start() {
    PLACES.lock().unwrap().clear();
    COUNT.store(0, Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
}

/// Allocations since [`start`].
fn stop() -> usize {
    COUNTING.store(false, Ordering::SeqCst);
    COUNT.load(Ordering::SeqCst)
}

/// The lines of this project on the way to every one.
fn places() -> String {
    let places = PLACES.lock().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let own = |line: &&str| line.contains("at ./src") || line.contains("/crates/");
    places.iter().flat_map(|place| place.lines().filter(own).chain(["---"])).collect::<Vec<_>>().join("\n")
}

/// Runs at most: a thread grows buffers of its own when it first takes a piece of such a size, whenever that is.
const RUNS: usize = 50;

/// Runs until nothing allocates.
fn settle<T>(mut run: impl FnMut() -> Result<T, String>) -> T {
    let mut run = || run().map_err(|fault| format!("{fault}\n{}", places()));
    (1..RUNS).find_map(|_| run().ok()).unwrap_or_else(|| run().unwrap_or_else(|fault| panic!("{fault}")))
}

#[test]
fn steps_and_cycles_allocate_nothing() {
    start();
    assert_eq!((std::hint::black_box(vec![1, 2, 3]).len(), stop()), (3, 1), "the count counts");
    for threads in [1, 2] {
        let backend = Arc::new(CpuBackend::new(threads, Isa::detect()));
        let mut drafted = [0; 3];
        for case in Case::kinds() {
            let target = || {
                let backend = Arc::clone(&backend) as _;
                load_target(&case.path, backend, &mut |_, _| {}).expect("a sound checkpoint").target
            };
            let draft = TinyDraft { taps: vec![0], block: BLOCK, ..TinyDraft::default() };
            let draft = draft_for(target().as_ref(), &draft, DraftOptions::default());
            steps(&case.name, target().as_ref());
            drafted[0] += cycles(&case.name, target(), Vec::new());
            drafted[1] += cycles(&case.name, target(), vec![Box::new(ContextCopy::new(BLOCK))]);
            drafted[2] += cycles(&case.name, target(), vec![Box::new(BlockDiffusion::new(draft))]);
        }
        assert!(drafted[0] == 0 && drafted[1] > 0 && drafted[2] > 0, "{drafted:?} ids were drafted");
    }
}

/// A round of every kind of pass twice, within one K/V block: the second time nothing is left to grow.
fn steps(name: &str, target: &dyn Target) {
    let before = prompt(BLOCK_POSITIONS + 1, target.spec().vocab, 1);
    settle(|| {
        let mut steps = Steps::of(target);
        steps.pass(&before, Shape::Chain, before.len());
        steps.round(name).ok();
        let counted = steps.round(name);
        assert!(steps.cache.len() + BLOCK <= 2 * BLOCK_POSITIONS, "one block");
        counted
    });
}

/// What takes the passes of a target.
struct Steps<'a> {
    target: &'a dyn Target,
    workspace: Workspace,
    taps: Taps,
    cache: SeqCache,
    batch: Batch,
    choices: Vec<Choice>,
}

/// A tree with two branches, and a path through it that is not its first one.
const PARENTS: [Option<usize>; 6] = [None, Some(0), Some(1), Some(0), Some(3), Some(4)];
const PATH: [usize; 3] = [0, 3, 4];

impl<'a> Steps<'a> {
    fn of(target: &'a dyn Target) -> Self {
        let spec = target.spec();
        let layers: Vec<usize> = (0..spec.layers).collect();
        let taps = Taps::new(Arc::clone(target.backend()), &layers, spec.hidden);
        let (workspace, cache) = (target.workspace(), target.new_cache());
        Self { target, workspace, taps, cache, batch: Batch::new(), choices: Vec::new() }
    }

    /// Passes of all sizes, of which all rows, some and none are accepted.
    fn round(&mut self, name: &str) -> Result<(), String> {
        let ids = prompt(BLOCK, self.target.spec().vocab, 2);
        for (rows, accepted) in [(1, 1), (8, 3), (16, 5), (8, 8), (16, 0), (1, 1)] {
            let count = self.pass(&ids[..rows], Shape::Chain, accepted);
            none(count, || format!("{name}: {accepted} of {rows} rows accepted"))?;
        }
        let count = self.pass(&ids[..PARENTS.len()], Shape::Tree(PARENTS.to_vec()), PATH.len());
        none(count, || format!("{name}: a tree"))
    }

    /// Allocations of a pass with its choices and its end.
    fn pass(&mut self, ids: &[u32], shape: Shape, accepted: usize) -> usize {
        let chain = shape == Shape::Chain;
        self.batch.clear();
        self.batch.push(ids, self.cache.len(), shape);
        let rows: Vec<usize> = (0..ids.len()).collect();
        self.choices.clear();
        start();
        self.cache.begin_verify(ids.len());
        let caches = &mut [&mut self.cache];
        self.target.forward(&mut self.workspace, &self.batch, caches, Some(&mut self.taps));
        self.target.choose(&self.workspace, &rows, &mut self.choices).expect("finite logits");
        match chain {
            true => self.cache.accept_chain(accepted),
            false => self.cache.accept_path(&PARENTS, &PATH),
        }
        stop()
    }
}

fn none(count: usize, what: impl FnOnce() -> String) -> Result<(), String> {
    if count == 0 { Ok(()) } else { Err(format!("{}: {count} allocations", what())) }
}

/// Positions at which a request has grown its buffers. A width that is new takes its place in the statistics.
const WARM: usize = 2 * BLOCK_POSITIONS + 26;

/// Cycles of a request within one K/V block: each allocates the ids of its event, nothing else. Returns the
/// ids that were drafted in them.
fn cycles(name: &str, target: Box<dyn Target>, proposers: Vec<Box<dyn Proposer>>) -> usize {
    let prompt = prompt(2 * BLOCK_POSITIONS, target.spec().vocab, 3);
    let decoder = Decoder::new(target, proposers, options(VerifyMode::Fixed));
    settle(|| {
        let (mut done, mut widths, mut drafted, mut fault) = (prompt.len(), 0_u32, 0, Ok(()));
        let mut emit = |event: Event| {
            let count = stop();
            if let Event::Cycle(cycle) = event {
                let known = widths & 1 << cycle.width > 0;
                if done >= WARM && known {
                    fault = none(count - 1, || format!("{name}: {cycle:?}"));
                    drafted += cycle.width - 1;
                }
                done += cycle.committed;
                widths |= 1 << cycle.width;
                start();
            }
            fault.is_ok()
        };
        let request = Request::new(prompt.clone(), BLOCK_POSITIONS);
        decoder.decode(request, &mut emit).expect("a request that can be decoded");
        stop();
        assert!(done > WARM, "{name}: cycles were counted");
        fault.map(|()| drafted)
    })
}
