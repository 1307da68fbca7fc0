use dflash_tensor::SeqCache;

use crate::Decoder;
use crate::sequence::Sequence;

/// The whole state of a sequence at one committed length. Immutable; what it holds is shared with whoever goes on from it.
///
/// The logits behind it are not kept: whoever goes on runs one id at least.
pub(crate) struct Snapshot {
    /// All ids whose state it is.
    ids: Vec<u32>,
    target: SeqCache,
    /// Of each proposer; `None` where it keeps nothing, or was not awake.
    proposers: Vec<Option<SeqCache>>,
}

impl Snapshot {
    /// The state of a sequence after its first `len` ids, between two steps; `None` where it is past that and cannot go
    /// back.
    pub fn take(decoder: &Decoder, seq: &mut Sequence, len: usize) -> Option<Self> {
        let target = (len > 0).then(|| seq.cache.prefix(len)).flatten()?;
        let Sequence { proposers, asleep, .. } = seq;
        let states = decoder.proposers().iter().zip(proposers).zip(asleep);
        let kept = states.map(|((proposer, state), asleep)| match asleep {
            true => None,
            false => proposer.keep(state)?.prefix(len),
        });
        Some(Self { ids: seq.ids[..len].to_vec(), target, proposers: kept.collect() })
    }

    /// Ids whose state it is.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Ids that `ids` begins with too.
    pub fn shared(&self, ids: &[u32]) -> usize {
        self.ids.iter().zip(ids).take_while(|(one, other)| one == other).count()
    }

    /// How many of the first `ids` a sequence can go on from, the most there are.
    pub fn serves(&self, ids: &[u32]) -> usize {
        let shared = self.shared(ids);
        if self.target.reaches(shared) { shared } else { 0 }
    }

    /// Whether every proposer that keeps anything can go on from the first `len` ids.
    pub fn drafts(&self, len: usize) -> bool {
        self.proposers.iter().flatten().all(|kept| kept.reaches(len))
            && self.proposers.iter().any(Option::is_some)
    }

    /// Whether it serves for everything that `other` serves for.
    pub fn covers(&self, other: &Self) -> bool {
        let drafts = || self.drafts(other.len()) || !other.drafts(other.len());
        self.serves(&other.ids) == other.len() && drafts()
    }

    /// Lets a sequence go on from the first `len` ids, which [`Snapshot::serves`] it.
    pub fn restore(&self, decoder: &Decoder, seq: &mut Sequence, len: usize) {
        let Some(cache) = self.target.prefix(len) else { return };
        seq.cache = cache;
        for (index, proposer) in decoder.proposers().iter().enumerate().take(seq.proposers.len()) {
            let kept = self.proposers.get(index).and_then(Option::as_ref);
            match proposer.recall(kept, len) {
                Some(state) => seq.proposers[index] = state,
                None => seq.asleep[index] = true,
            }
        }
        seq.stats.cached_tokens = len;
    }

    /// Tells address and bytes of everything held; what is shared has one address.
    pub fn parts(&self, tell: &mut dyn FnMut(usize, usize)) {
        self.target.parts(tell);
        self.proposers.iter().flatten().for_each(|kept| kept.parts(tell));
        tell(self.ids.as_ptr().addr(), size_of_val(self.ids.as_slice()));
    }
}
