use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use dflash_engine::{PrefixTier, Snapshot, TierStats};
use dflash_tensor::Backend;

use super::file::{self, Head};
use super::folder::{Folder, Stored};
use super::space::room;
use crate::report::say;

/// States that wait to be written: more are dropped, since writing is slower than making them.
const WAITING: usize = 4;

/// For these at the end.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// What of a disk may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// Folder of these weights.
    pub folder: PathBuf,
    /// What the drafts' parts are of.
    pub draft: String,
    /// Bytes of all states at most.
    pub bytes: u64,
}

/// States in files.
pub struct DiskTier {
    shared: Arc<Shared>,
    readers: Sender<Wanted>,
    writer: Option<SyncSender<Arc<Snapshot>>>,
    /// Hung up when all is written.
    written: Option<Receiver<()>>,
}

/// Ids of a prompt, and who waits for a state of them.
type Wanted = (Vec<u32>, Sender<Option<Arc<Snapshot>>>);

struct Shared {
    folder: Folder,
    options: DiskOptions,
    blank: Snapshot,
    backend: Arc<dyn Backend>,
    index: Mutex<Index>,
    stats: Mutex<TierStats>,
}

/// What is in the folder, as far as is known.
#[derive(Default)]
struct Index {
    states: Vec<Stored>,
    /// When the folder looked like this.
    seen: Option<SystemTime>,
}

impl DiskTier {
    /// Opens the folder. States are put together like `blank`.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn open(options: DiskOptions, blank: Snapshot, backend: Arc<dyn Backend>) -> io::Result<Self> {
        let folder = Folder::open(options.folder.clone())?;
        let shared = Arc::new(Shared {
            folder,
            options,
            blank,
            backend,
            index: Mutex::default(),
            stats: Mutex::default(),
        });
        shared.look();
        let (readers, wanted) = channel();
        spawn("dflash-prefix-read", &shared, move |shared| {
            wanted.iter().for_each(|wanted| shared.answer(wanted))
        });
        let (done, written) = channel::<()>();
        let writer = shared.folder.is_ours().then(|| {
            let (writer, offered) = sync_channel::<Arc<Snapshot>>(WAITING);
            spawn("dflash-prefix-write", &shared, move |shared| {
                let _done = done;
                offered.iter().for_each(|snapshot| shared.keep(&snapshot));
            });
            writer
        });
        Ok(Self { shared, readers, written: writer.is_some().then_some(written), writer })
    }
}

fn spawn(name: &str, shared: &Arc<Shared>, body: impl FnOnce(&Shared) + Send + 'static) {
    let shared = Arc::clone(shared);
    // Detached: it ends with the tier that it works for.
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || body(&shared));
    thread.expect("the system gives a thread");
}

impl PrefixTier for DiskTier {
    fn serves(&self, ids: &[u32]) -> usize {
        self.shared.look();
        self.shared.best(ids).map_or(0, |(len, _)| len)
    }

    fn fetch(&self, ids: &[u32]) -> Receiver<Option<Arc<Snapshot>>> {
        let (reply, state) = channel();
        // Without a reader nobody replies, which says that it cannot be had.
        let _ = self.readers.send((ids.to_vec(), reply));
        state
    }

    fn offer(&self, snapshot: &Arc<Snapshot>) {
        if let Some(writer) = &self.writer
            && let Err(TrySendError::Full(_)) = writer.try_send(Arc::clone(snapshot))
        {
            self.shared.count(|stats| stats.failed += 1);
        }
    }

    fn stats(&self) -> TierStats {
        // Asked in every step: it waits for nobody who reads or writes files.
        *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskTier {
    /// What waits to be written is written.
    fn drop(&mut self) {
        drop(self.writer.take());
        let Some(written) = self.written.take() else { return };
        // It hangs up when it is done.
        if written.recv_timeout(LAST_WRITES) == Err(RecvTimeoutError::Disconnected) {
            self.shared.folder.release();
        }
    }
}

impl Shared {
    /// Looks at the folder again if it has changed: other processes write there too.
    fn look(&self) {
        let changed = self.folder.changed();
        let mut index = self.index();
        if index.seen != changed || changed.is_none() {
            let known = std::mem::take(&mut index.states);
            *index = Index { states: self.folder.list(known), seen: changed };
            self.tell(&index);
        }
    }

    /// The state that serves `ids` best, and for how many of them: of several one that the draft can go on from.
    fn best(&self, ids: &[u32]) -> Option<(usize, Stored)> {
        let divisible = self.blank.target().is_divisible();
        let serves = |state: &Stored| {
            let shared = state.head.ids.iter().zip(ids).take_while(|(one, other)| one == other).count();
            if divisible || shared == state.head.ids.len() { shared } else { 0 }
        };
        let index = self.index();
        let best = index
            .states
            .iter()
            .map(|state| (serves(state), state))
            .max_by_key(|(len, state)| (*len, state.head.draft == self.options.draft));
        best.filter(|(len, _)| *len > 0).map(|(len, state)| (len, state.clone()))
    }

    fn answer(&self, (ids, reply): Wanted) {
        let Self { folder, options, blank, backend, .. } = self;
        let began = Instant::now();
        let state = self.best(&ids).and_then(|(_, stored)| {
            let state = file::read(&stored.path, blank, backend.as_ref(), &options.draft);
            match &state {
                Some(_) => folder.touch(&stored.path),
                None => self.forget(&stored),
            }
            state
        });
        if state.is_some() {
            self.count(|stats| {
                stats.hits += 1;
                stats.read_s += began.elapsed().as_secs_f64();
            });
        }
        // Whoever asked may have gone.
        let _ = reply.send(state.map(Arc::new));
    }

    /// Drops a state that cannot be read.
    fn forget(&self, stored: &Stored) {
        self.folder.remove(&stored.path);
        let mut index = self.index();
        index.states.retain(|state| state.path != stored.path);
        self.tell(&index);
        self.count(|stats| stats.damaged += 1);
    }

    /// Notes what is there.
    fn tell(&self, index: &Index) {
        let bytes = index.states.iter().map(|state| state.bytes).sum();
        self.count(|stats| (stats.entries, stats.bytes) = (index.states.len(), bytes));
    }

    fn count(&self, add: impl FnOnce(&mut TierStats)) {
        add(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Writes a state, if the disk has room beside what stays free.
    fn write(&self, snapshot: &Snapshot) -> io::Result<Stored> {
        match room(&self.options.folder) {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            _ => self.folder.write(snapshot, &self.options.draft),
        }
    }

    /// Counts a state that was not written, and says why the first was not.
    fn fail(&self, error: &io::Error) {
        let mut failed = 0;
        self.count(|stats| {
            stats.failed += 1;
            failed = stats.failed;
        });
        if failed == 1 {
            let folder = self.options.folder.display();
            say(format_args!("warning: states are not kept in {folder}: {error}"));
        }
    }

    /// Keeps a state, unless one that is there serves for all it serves for, and makes room.
    fn keep(&self, snapshot: &Snapshot) {
        let head = Head::of(snapshot, &self.options.draft);
        let serves = |(len, stored): (usize, Stored)| {
            len == snapshot.len() && (head.draft.is_empty() || stored.head.draft == head.draft)
        };
        if self.best(snapshot.ids()).is_some_and(serves) {
            return;
        }
        let stored = match self.write(snapshot) {
            Ok(stored) => stored,
            Err(error) => return self.fail(&error),
        };
        self.count(|stats| stats.stored += 1);
        let divisible = self.blank.target().is_divisible();
        let mut index = self.index();
        let covered =
            |state: &Stored| state.path == stored.path || divisible && stored.head.covers(&state.head);
        index.states.extract_if(.., |state| covered(state)).for_each(|state| {
            if state.path != stored.path {
                self.folder.remove(&state.path);
            }
        });
        index.states.push(stored);
        self.make_room(&mut index);
        index.seen = self.folder.changed();
        self.tell(&index);
    }

    /// Removes what was not used for the longest time until the rest is within the limit.
    fn make_room(&self, index: &mut Index) {
        index.states.sort_by_key(|state| state.used);
        let mut held: u64 = index.states.iter().map(|state| state.bytes).sum();
        while held > self.options.bytes && !index.states.is_empty() {
            let oldest = index.states.remove(0);
            held -= oldest.bytes;
            self.folder.remove(&oldest.path);
            self.count(|stats| stats.evicted += 1);
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
