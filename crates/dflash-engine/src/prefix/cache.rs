use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::Instant;

use super::held::Held;
use super::{Counts, Found, Lookup, PrefixTier, Snapshot};
use crate::Decoder;
use crate::sequence::{Awaited, Sequence};

/// Ids of a prompt that are read again for the sake of a draft's context: without it the whole answer is decoded plainly.
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
    /// Ids of a long prompt between two states, where a state cannot be cut.
    pub stride: usize,
}

/// The states that are kept in memory, with a slower tier behind them at will.
///
/// The least valuable makes room: every state has a priority, the ids it saves by the bytes it takes, added to the
/// priority of the last one that went (GreedyDual-Size, Cao and Irani 1997), and gets it anew when it serves. So what is
/// not used grows old, the sooner the less it saves by the byte.
pub(crate) struct PrefixCache {
    options: PrefixOptions,
    entries: Vec<Entry>,
    held: Held,
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
        Self { options, entries: Vec::new(), held: Held::default(), age: 0.0, tier, counts }
    }

    /// What a new sequence begins with: the longest state that serves it, or none yet where one of `others` is about to
    /// prefill more of its prompt.
    pub fn begin(&mut self, decoder: &Decoder, seq: &mut Sequence, others: &mut [Sequence]) {
        seq.kept = true;
        if !seq.cache.is_divisible() {
            self.cut(seq);
        }
        let prompt = &seq.ids[..seq.prompt - 1];
        let shared = |other: &Sequence| {
            let shared =
                other.ids[..other.prompt].iter().zip(prompt).take_while(|(one, two)| one == two).count();
            let comes = other.kept && other.is_prompt() && !other.is_over() && other.cache.len() <= shared;
            if comes { shared } else { 0 }
        };
        let worth = self.best(seq).map_or(0, |(_, len)| len) + WORTH_WAITING;
        let ahead = others.iter_mut().map(|other| (shared(other), other)).max_by_key(|(shared, _)| *shared);
        let stored = self.tier.as_ref().map_or(0, |tier| tier.serves(prompt));
        seq.awaits = match ahead {
            Some((shared, other)) if shared >= worth.max(stored) => {
                other.cut(shared);
                self.counts.change(|stats| stats.joined += 1);
                Some(Awaited::Prefill(shared))
            }
            _ if stored >= worth => self.tier.as_ref().map(|tier| Awaited::Tier(tier.fetch(prompt))),
            _ => None,
        };
        if seq.awaits.is_none() {
            self.restore(decoder, seq, None);
        }
    }

    /// Where states are kept on the way, as none can be cut later.
    fn cut(&self, seq: &mut Sequence) {
        let last = seq.prompt - 1;
        (1..=last / self.options.stride).for_each(|times| seq.cut(times * self.options.stride));
        if seq.cuts.last().is_none_or(|&cut| cut + WORTH_WAITING <= last) {
            // One that asks the same again could not go back to where one id is left to run.
            seq.cut(last);
        }
    }

    /// Keeps the states that are due after a step, and lets those go on that waited for one of them, or in vain.
    pub fn keep(&mut self, decoder: &Decoder, seqs: &mut [Sequence]) {
        for seq in seqs.iter_mut().filter(|seq| seq.kept && seq.failed.is_none()) {
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
            if let Some(fetched) = self.has_come(seqs, index) {
                seqs[index].awaits = None;
                self.restore(decoder, &mut seqs[index], fetched.as_ref());
                fetched.into_iter().for_each(|snapshot| self.insert(snapshot));
            }
        }
        if let Some(tier) = &self.tier {
            let tier = tier.stats();
            self.counts.change(|stats| stats.tier = Some(tier));
        }
    }

    /// Gives the slower tier what it cannot make of what it gets later.
    fn offer(&self, snapshot: &Arc<Snapshot>, seq: &Sequence) {
        let Some(tier) = &self.tier else { return };
        if snapshot.len() >= WORTH_WAITING && (seq.is_over() || !seq.cache.is_divisible()) {
            tier.offer(snapshot);
        }
    }

    /// Whether a sequence has waited long enough, as what it waited for is there or will not come; and what was fetched
    /// for it.
    fn has_come(&self, seqs: &[Sequence], index: usize) -> Option<Option<Arc<Snapshot>>> {
        let seq = &seqs[index];
        let prompt = &seq.ids[..seq.prompt];
        match seq.awaits.as_ref()? {
            &Awaited::Prefill(awaited) => {
                let comes = |other: &Sequence| {
                    let alike = other.ids.get(..awaited) == prompt.get(..awaited);
                    // Who waits for as much, itself maybe, would be waited for in a circle.
                    let waits = matches!(other.awaits, Some(Awaited::Prefill(at)) if at >= awaited);
                    other.is_prompt() && !other.is_over() && other.cuts.contains(&awaited) && alike && !waits
                };
                let there = self.best(seq).is_some_and(|(_, len)| len >= awaited);
                (there || !seqs.iter().any(comes)).then_some(None)
            }
            Awaited::Tier(state) => match state.try_recv() {
                Ok(fetched) => Some(fetched),
                Err(TryRecvError::Disconnected) => Some(None),
                Err(TryRecvError::Empty) => None,
            },
        }
    }

    /// Lets a sequence that has done nothing yet go on from the longest state that serves it, `fetched` from the tier or
    /// in memory.
    fn restore(&mut self, decoder: &Decoder, seq: &mut Sequence, fetched: Option<&Arc<Snapshot>>) {
        let began = Instant::now();
        let ids = &seq.ids[..seq.prompt - 1];
        let kept = self.best(seq);
        let least = kept.map_or(1, |(_, len)| len + 1);
        let serves =
            |snapshot: &Snapshot| worth(snapshot, seq).map(|(_, len)| len).filter(|&len| len >= least);
        let fetched = fetched.and_then(|snapshot| Some((snapshot, serves(snapshot)?)));
        let (snapshot, len) = match (fetched, kept) {
            (Some((snapshot, len)), _) => (Arc::clone(snapshot), len),
            (None, Some((index, len))) => {
                let entry = &mut self.entries[index];
                entry.priority = self.age + entry.value;
                (Arc::clone(&entry.snapshot), len)
            }
            (None, None) => return self.count(seq, self.miss(ids)),
        };
        let found = match len {
            len if len == ids.len() => Found::Whole,
            len if len == snapshot.len() => Found::Beginning,
            _ => Found::Part,
        };
        snapshot.restore(decoder, seq, len);
        self.count(seq, Lookup { found, from_tier: fetched.is_some() });
        self.counts.change(|stats| {
            stats.tokens_saved += len as u64;
            stats.restore_s += began.elapsed().as_secs_f64();
        });
    }

    /// Why nothing serves these ids.
    fn miss(&self, ids: &[u32]) -> Lookup {
        let known = self.entries.iter().any(|entry| entry.snapshot.shared(ids) > 0);
        let found = match (self.entries.is_empty(), known) {
            (true, _) => Found::Empty,
            (false, true) => Found::Diverged,
            (false, false) => Found::Unknown,
        };
        Lookup { found, from_tier: false }
    }

    fn count(&self, seq: &mut Sequence, lookup: Lookup) {
        seq.stats.prefix = Some(lookup);
        self.counts.change(|stats| stats.lookups.add(lookup));
    }

    /// The state that is worth most to a sequence, and for how many ids of its prompt it serves.
    fn best(&self, seq: &Sequence) -> Option<(usize, usize)> {
        let worths = self.entries.iter().map(|entry| worth(&entry.snapshot, seq)).enumerate();
        let best = worths.filter_map(|(index, found)| Some((index, found?))).max_by_key(|&(_, found)| found);
        best.map(|(index, (_, len))| (index, len))
    }

    /// Keeps a state, unless one that is there serves for all it serves for.
    fn insert(&mut self, snapshot: Arc<Snapshot>) {
        if snapshot.len() > self.options.longest {
            return self.counts.change(|stats| stats.too_large += 1);
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.snapshot.covers(&snapshot)) {
            entry.priority = self.age + entry.value;
            return;
        }
        let replaced = self.entries.extract_if(.., |entry| snapshot.covers(&entry.snapshot));
        let replaced = replaced.map(|entry| self.held.remove(&entry.snapshot)).count();
        self.held.add(&snapshot);
        let value = snapshot.len() as f64 / snapshot.bytes().max(1) as f64;
        self.entries.push(Entry { snapshot, value, priority: self.age + value });
        let evicted = self.make_room();
        let (entries, bytes) = (self.entries.len(), self.held.bytes());
        self.counts.change(|stats| {
            stats.stored += 1;
            stats.replaced += replaced as u64;
            stats.evicted += evicted;
            stats.too_large += u64::from(entries == 0);
            (stats.entries, stats.bytes) = (entries, bytes);
        });
    }

    /// Lets states go until the rest is within the limits, the newest last: how many made room for others.
    fn make_room(&mut self) -> u64 {
        let mut evicted = 0;
        while self.entries.len() > self.options.entries || self.held.bytes() > self.options.bytes {
            let others = self.entries[..self.entries.len() - 1].iter().map(|entry| entry.priority);
            let least = others.enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
            let (index, priority) = least.unwrap_or((0, self.age));
            self.age = self.age.max(priority);
            self.held.remove(&self.entries.remove(index).snapshot);
            evicted += u64::from(least.is_some());
        }
        evicted
    }
}

/// What a state is worth to a sequence, in ids that need not be read, and for how many ids of its prompt it serves; one at
/// least is left to run. `None` where the sequence had better begin anew.
fn worth(snapshot: &Snapshot, seq: &Sequence) -> Option<(usize, usize)> {
    let len = snapshot.serves(&seq.ids[..seq.prompt - 1]);
    let worth = if seq.tapped && !snapshot.drafts(len) { len.saturating_sub(DRAFT_WORTH) } else { len };
    (worth > 0).then_some((worth, len))
}
