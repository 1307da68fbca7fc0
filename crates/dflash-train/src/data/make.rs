use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use dflash_engine::EngineHandle;

use super::author::{Author, Outcome, hash};
use super::shard::{number, shard_path};
use super::{DataProgress, Manifest, Prompts, Shard, Turn, shards};
use crate::TrainError;
use crate::lock::FolderLock;

/// Answers of a file. What is not in a file yet is lost with the process.
const SHARD: usize = 256;
/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(200);

/// Answers of fewer ids teach nothing, and are left out.
pub const SHORTEST: usize = 4;

/// How answers are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataOptions {
    /// Ids of answers that are wished for, those of earlier runs included.
    pub tokens: usize,
    /// Most ids of an answer; at least [`SHORTEST`].
    pub max_tokens: usize,
    /// Prompts that are worked on side by side: the engine's `max_batch`.
    pub side_by_side: usize,
    /// Of self-made prompts.
    pub seed: u64,
    /// Positions of the target.
    pub context: usize,
}

/// Makes answers into `folder` until there are enough, the prompts end or `asked_to_end` says so; what earlier runs
/// made there counts. `stop_ids` end an answer; `tell` hears of every answer.
///
/// # Errors
/// A folder of other answers, and whatever engine, template and file system report. What was written stays.
#[expect(clippy::too_many_arguments, reason = "who answers, what to, where to, and who watches")]
pub fn make(
    engine: &EngineHandle,
    turn: &Turn<'_>,
    stop_ids: &[u32],
    prompts: &Prompts,
    options: &DataOptions,
    model: &str,
    folder: &Path,
    asked_to_end: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(&DataProgress),
) -> Result<DataProgress, TrainError> {
    let manifest = Manifest {
        model: model.to_owned(),
        prompts: prompts.name(),
        max_tokens: options.max_tokens,
        seed: options.seed,
    };
    let _lock = FolderLock::take(folder)?;
    manifest.claim(folder)?;
    let mut keeper = Keeper::open(folder, options.tokens)?;
    let enough = AtomicBool::new(keeper.is_full());
    let ended = || enough.load(Relaxed) || asked_to_end();
    let known = Mutex::new(std::mem::take(&mut keeper.known));
    let author = Author { engine, turn, prompts, stop_ids, options, known, ended: &ended };
    let numbers = Numbers {
        next: AtomicU64::new(0),
        end: prompts.len().unwrap_or(u64::MAX),
        done: &keeper.done.clone(),
    };
    let made = thread::scope(|scope| {
        let (sender, outcomes) = channel();
        for _ in 0..options.side_by_side.max(1) {
            let (sender, author, numbers, ended) = (sender.clone(), &author, &numbers, &ended);
            scope.spawn(move || work(author, numbers, &sender, ended));
        }
        drop(sender);
        let made = keeper.collect(&outcomes, &ended, tell);
        enough.store(true, Relaxed);
        made
    });
    // What is done is kept, whatever went wrong.
    keeper.write()?;
    made?;
    Ok(keeper.progress)
}

/// Numbers of prompts that are still to be answered.
struct Numbers<'a> {
    next: AtomicU64,
    end: u64,
    done: &'a HashSet<u64>,
}

impl Numbers<'_> {
    fn next(&self) -> Option<u64> {
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.end {
                return None;
            }
            if !self.done.contains(&number) {
                return Some(number);
            }
        }
    }
}

fn work(
    author: &Author<'_>,
    numbers: &Numbers<'_>,
    sender: &Sender<Result<Outcome, TrainError>>,
    ended: &dyn Fn() -> bool,
) {
    while !ended() {
        let Some(number) = numbers.next() else { return };
        if sender.send(author.sequence(number)).is_err() {
            return;
        }
    }
}

/// Puts answers into files.
struct Keeper<'a> {
    folder: &'a Path,
    /// Number of the next file.
    next: usize,
    shard: Shard,
    done: HashSet<u64>,
    known: HashSet<u64>,
    progress: DataProgress,
}

impl<'a> Keeper<'a> {
    /// Counts what is there.
    fn open(folder: &'a Path, goal: usize) -> Result<Self, TrainError> {
        let progress =
            DataProgress { sequences: 0, tokens: 0, goal, dropped: 0, before: 0, began: Instant::now() };
        let (done, known) = (HashSet::new(), HashSet::new());
        let mut keeper = Self { folder, next: 1, shard: Shard::default(), done, known, progress };
        for path in shards(folder)? {
            let shard = Shard::read(&path)?;
            for sequence in &shard.sequences {
                keeper.done.insert(sequence.source);
                keeper.known.extend([hash(&sequence.ids[..sequence.prompt]), hash(sequence.answer())]);
                keeper.progress.tokens += sequence.answer().len();
            }
            keeper.progress.sequences += shard.sequences.len();
            keeper.progress.dropped += shard.dropped.len();
            keeper.done.extend(shard.dropped);
            keeper.next = number(&path).map_or(keeper.next, |number| number + 1);
        }
        keeper.progress.before = keeper.progress.tokens;
        Ok(keeper)
    }

    fn is_full(&self) -> bool {
        self.progress.tokens >= self.progress.goal
    }

    fn collect(
        &mut self,
        outcomes: &Receiver<Result<Outcome, TrainError>>,
        ended: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&DataProgress),
    ) -> Result<(), TrainError> {
        while !self.is_full() && !ended() {
            match outcomes.recv_timeout(LOOK) {
                Ok(outcome) => self.take(outcome?)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            tell(&self.progress);
        }
        Ok(())
    }

    fn take(&mut self, outcome: Outcome) -> Result<(), TrainError> {
        match outcome {
            Outcome::Made(sequence) => {
                self.progress.sequences += 1;
                self.progress.tokens += sequence.answer().len();
                self.shard.sequences.push(sequence);
            }
            Outcome::Dropped(number) => {
                self.progress.dropped += 1;
                self.shard.dropped.push(number);
            }
            Outcome::Ended => {}
        }
        if self.shard.sequences.len() < SHARD { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), TrainError> {
        if self.shard != Shard::default() {
            self.shard.write(&shard_path(self.folder, self.next))?;
            self.next += 1;
            self.shard = Shard::default();
        }
        Ok(())
    }
}
