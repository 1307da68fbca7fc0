use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, PoisonError};

use super::{Counts, PrefixTier, Snapshot};
use crate::Decoder;
use crate::sequence::{Awaited, Sequence};

/// Ids of a prompt that may be read again for the sake of a draft's context.
const DRAFT_WORTH: usize = 256;

/// Ids of a prompt for which it is worth to wait until another sequence has read them.
const WORTH_WAITING: usize = 64;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixOptions {
    /// States at most.
    pub entries: usize,
    /// Bytes at most, what states share counted once.
    pub bytes: usize,
    /// Ids of a state at most.
    pub longest: usize,
}

/// The states that are kept in memory, with a slower tier behind them at will.
///
/// The least valuable makes room: every state has a priority, the ids it saves by the bytes it takes, added to the
/// priority of the last one that went (GreedyDual-Size, Cao and Irani 1997), and gets it anew when it serves. So what is
/// not used grows old, the sooner the less it saves by the byte.
pub(crate) struct PrefixCache {
    options: PrefixOptions,
    entries: Vec<Entry>,
    /// Priority of the last one that went.
    age: f64,
    tier: Option<Box<dyn PrefixTier>>,
    counts: Arc<Counts>,
}

struct Entry {
    snapshot: Arc<Snapshot>,
    /// Ids saved by the byte.
    value: f64,
    priority: f64,
}

impl PrefixCache {
    pub fn new(options: PrefixOptions, tier: Option<Box<dyn PrefixTier>>, counts: Arc<Counts>) -> Self {
        Self { options, entries: Vec::new(), age: 0.0, tier, counts }
    }

    /// How many of the first ids of a prompt could be gone on from; one at least is left to run.
    pub fn serves(&self, prompt: &[u32]) -> usize {
        self.best(prompt).map_or(0, |(_, len)| len)
    }

    /// What a new sequence begins with: the longest state that serves it, or none yet where one of `others` is about to
    /// prefill more of its prompt.
    pub fn begin(&mut self, decoder: &Decoder, seq: &mut Sequence, others: &mut [Sequence]) {
        seq.kept = true;
        if !seq.cache.is_divisible() && seq.cuts.last().is_none_or(|&last| last + WORTH_WAITING < seq.prompt)
        {
            // One that asks the same again could not go back to where one id is left to run.
            seq.cut(seq.prompt - 1);
        }
        let prompt = &seq.ids[..seq.prompt - 1];
        let shared = |other: &Sequence| {
            let shared =
                other.ids[..other.prompt].iter().zip(prompt).take_while(|(one, two)| one == two).count();
            let comes = other.is_prompt() && !other.is_over() && other.cache.len() <= shared;
            if comes { shared } else { 0 }
        };
        let worth = self.serves(&seq.ids[..seq.prompt]) + WORTH_WAITING;
        let ahead = others.iter_mut().map(|other| (shared(other), other)).max_by_key(|(shared, _)| *shared);
        let stored = self.tier.as_ref().map_or(0, |tier| tier.serves(prompt));
        seq.awaits = match ahead {
            Some((shared, other)) if shared >= worth.max(stored) => {
                other.cut(shared);
                self.counts.joined.fetch_add(1, Relaxed);
                Some(Awaited::Prefill(shared))
            }
            _ if stored >= worth => self.tier.as_ref().map(|tier| Awaited::Tier(tier.fetch(prompt))),
            _ => None,
        };
        if seq.awaits.is_none() {
            self.restore(decoder, seq);
        }
    }

    /// Keeps the states that are due after a step, and lets those go on that waited for one of them, or in vain.
    pub fn keep(&mut self, decoder: &Decoder, seqs: &mut [Sequence]) {
        for seq in seqs.iter_mut().filter(|seq| seq.failed.is_none()) {
            let len = seq.cache.len();
            let due: Vec<usize> = seq.cuts.extract_if(.., |cut| *cut <= len).collect();
            let over = (seq.is_over() || len == seq.prompt).then_some(len);
            for at in due.into_iter().chain(over) {
                if let Some(snapshot) = Snapshot::take(decoder, seq, at).map(Arc::new) {
                    self.offer(&snapshot, seq);
                    self.insert(snapshot);
                }
            }
        }
        for index in 0..seqs.len() {
            if self.has_come(seqs, index) {
                seqs[index].awaits = None;
                self.restore(decoder, &mut seqs[index]);
            }
        }
        if let Some(tier) = &self.tier {
            *self.counts.tier.lock().unwrap_or_else(PoisonError::into_inner) = Some(tier.stats());
        }
    }

    /// Gives the slower tier what it cannot make of what it gets later.
    fn offer(&self, snapshot: &Arc<Snapshot>, seq: &Sequence) {
        let Some(tier) = &self.tier else { return };
        if snapshot.len() >= WORTH_WAITING && (seq.is_over() || !seq.cache.is_divisible()) {
            tier.offer(snapshot);
        }
    }

    /// Whether a sequence has waited long enough: what it waited for is there, or will not come.
    fn has_come(&mut self, seqs: &[Sequence], index: usize) -> bool {
        let seq = &seqs[index];
        let prompt = &seq.ids[..seq.prompt];
        match &seq.awaits {
            None => false,
            &Some(Awaited::Prefill(awaited)) => {
                let comes = |other: &Sequence| {
                    let alike = other.ids.get(..awaited) == prompt.get(..awaited);
                    other.is_prompt() && !other.is_over() && other.cuts.contains(&awaited) && alike
                };
                self.serves(prompt) >= awaited || !seqs.iter().any(comes)
            }
            Some(Awaited::Tier(state)) => match state.try_recv() {
                Ok(Some(snapshot)) => {
                    self.insert(snapshot);
                    true
                }
                Ok(None) | Err(TryRecvError::Disconnected) => true,
                Err(TryRecvError::Empty) => false,
            },
        }
    }

    /// Lets a sequence that has done nothing yet go on from the longest state that serves it.
    pub fn restore(&mut self, decoder: &Decoder, seq: &mut Sequence) {
        let prompt = &seq.ids[..seq.prompt];
        self.counts.queries.fetch_add(1, Relaxed);
        let Some((index, len)) = self.best(prompt) else {
            let known = self.entries.iter().any(|entry| entry.snapshot.shared(prompt) > 0);
            let reason = match (self.entries.is_empty(), known) {
                (true, _) => &self.counts.empty,
                (false, true) => &self.counts.diverged,
                (false, false) => &self.counts.unknown,
            };
            reason.fetch_add(1, Relaxed);
            return;
        };
        self.counts.hits.fetch_add(1, Relaxed);
        self.counts.tokens_saved.fetch_add(len as u64, Relaxed);
        let entry = &mut self.entries[index];
        entry.priority = self.age + entry.value;
        entry.snapshot.restore(decoder, seq, len);
    }

    /// The state that serves for the most ids of a prompt but its last, and how many these are. One that the draft can
    /// go on from too may serve for somewhat fewer.
    fn best(&self, prompt: &[u32]) -> Option<(usize, usize)> {
        let ids = &prompt[..prompt.len().saturating_sub(1)];
        let served = self.entries.iter().map(|entry| (&*entry.snapshot, entry.snapshot.serves(ids)));
        let worth = |snapshot: &Snapshot, len| len + if snapshot.drafts(len) { DRAFT_WORTH } else { 0 };
        let served = served.enumerate().filter(|&(_, (_, len))| len > 0);
        let best = served.max_by_key(|&(_, (snapshot, len))| worth(snapshot, len));
        best.map(|(index, (_, len))| (index, len))
    }

    /// Keeps a state, unless one that is there serves for all it serves for.
    fn insert(&mut self, snapshot: Arc<Snapshot>) {
        if snapshot.len() > self.options.longest {
            self.counts.too_large.fetch_add(1, Relaxed);
            return;
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.snapshot.covers(&snapshot)) {
            entry.priority = self.age + entry.value;
            return;
        }
        let before = self.entries.len();
        self.entries.retain(|entry| !snapshot.covers(&entry.snapshot));
        self.counts.replaced.fetch_add((before - self.entries.len()) as u64, Relaxed);
        let value = snapshot.len() as f64 / bytes(std::iter::once(&*snapshot)).max(1) as f64;
        self.entries.push(Entry { snapshot, value, priority: self.age + value });
        self.counts.stored.fetch_add(1, Relaxed);
        self.make_room();
        self.counts.entries.store(self.entries.len(), Relaxed);
    }

    /// Lets states go until the rest is within the limits; the newest is the last to go.
    fn make_room(&mut self) {
        loop {
            let held = bytes(self.entries.iter().map(|entry| &*entry.snapshot));
            self.counts.bytes.store(held, Relaxed);
            if self.entries.len() <= self.options.entries && held <= self.options.bytes {
                return;
            }
            let [others @ .., _] = &self.entries[..] else { return };
            let priorities = others.iter().map(|entry| entry.priority).enumerate();
            match priorities.min_by(|(_, one), (_, other)| one.total_cmp(other)) {
                Some((index, priority)) => {
                    self.age = self.age.max(priority);
                    self.entries.remove(index);
                    self.counts.evicted.fetch_add(1, Relaxed);
                }
                None => {
                    self.entries.clear();
                    self.counts.too_large.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

/// Bytes that states hold together.
fn bytes<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> usize {
    let (mut known, mut total) = (HashSet::new(), 0);
    snapshots.for_each(|snapshot| {
        snapshot.parts(&mut |address, bytes| {
            if known.insert(address) {
                total += bytes;
            }
        });
    });
    total
}
