use dflash_tensor::SeqCache;

use crate::Decoder;
use crate::sequence::Sequence;

/// The whole state of a sequence at one committed length. Immutable; what it holds is shared with whoever goes on from it.
///
/// The logits behind it are not kept: whoever goes on runs one id at least.
pub struct Snapshot {
    /// All ids whose state it is.
    ids: Vec<u32>,
    target: SeqCache,
    /// Of each proposer, by its name; `None` where it keeps nothing, or was not awake.
    proposers: Vec<(&'static str, Option<SeqCache>)>,
}

impl Snapshot {
    /// Of no ids: what states of this decoder are made like.
    pub fn blank(decoder: &Decoder) -> Self {
        let proposers = decoder.proposers().iter();
        let kept = proposers.map(|proposer| (proposer.name(), proposer.keep(&mut proposer.new_state())));
        Self { ids: Vec::new(), target: decoder.target().new_cache(), proposers: kept.collect() }
    }

    /// One like this of other ids; `None` where its parts are not of that many.
    pub fn like(
        &self,
        ids: Vec<u32>,
        target: SeqCache,
        mut proposer: impl FnMut(&str) -> Option<SeqCache>,
    ) -> Option<Self> {
        let fits = |cache: &SeqCache| cache.len() == ids.len();
        let mut kept = |name: &'static str| (name, proposer(name).filter(|cache| fits(cache)));
        let proposers = self.proposers.iter().map(|(name, _)| kept(name)).collect();
        fits(&target).then(|| Self { target, proposers, ids })
    }

    /// The state of a sequence after its first `len` ids, between two steps; `None` where it is past that and cannot go
    /// back.
    pub(crate) fn take(decoder: &Decoder, seq: &mut Sequence, len: usize) -> Option<Self> {
        let target = (len > 0).then(|| seq.cache.prefix(len)).flatten()?;
        let Sequence { proposers, asleep, .. } = seq;
        let states = decoder.proposers().iter().zip(proposers).zip(asleep);
        let kept = states.map(|((proposer, state), asleep)| {
            let kept = if *asleep { None } else { proposer.keep(state) };
            (proposer.name(), kept.and_then(|kept| kept.prefix(len)))
        });
        Some(Self { ids: seq.ids[..len].to_vec(), target, proposers: kept.collect() })
    }

    /// The ids whose state it is.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The target's state.
    pub fn target(&self) -> &SeqCache {
        &self.target
    }

    /// What proposers keep, by their names.
    pub fn proposers(&self) -> impl Iterator<Item = (&'static str, &SeqCache)> {
        self.proposers.iter().filter_map(|(name, kept)| Some((*name, kept.as_ref()?)))
    }

    /// How many ids it is of.
    #[allow(clippy::len_without_is_empty, reason = "only a blank one is of none")]
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
        self.proposers().all(|(_, kept)| kept.reaches(len)) && self.proposers().next().is_some()
    }

    /// Whether it serves for everything that `other` serves for.
    pub fn covers(&self, other: &Self) -> bool {
        let drafts = || self.drafts(other.len()) || !other.drafts(other.len());
        self.serves(&other.ids) == other.len() && drafts()
    }

    /// Lets a sequence go on from the first `len` ids, which [`Snapshot::serves`] it.
    pub(crate) fn restore(&self, decoder: &Decoder, seq: &mut Sequence, len: usize) {
        let Some(cache) = self.target.prefix(len) else { return };
        seq.cache = cache;
        for (index, proposer) in decoder.proposers().iter().enumerate().take(seq.proposers.len()) {
            let kept = self.proposers.get(index).and_then(|(_, kept)| kept.as_ref());
            match proposer.recall(kept, len) {
                Some(state) => seq.proposers[index] = state,
                None => seq.asleep[index] = true,
            }
        }
        seq.stats.cached_tokens = len;
    }

    /// Bytes of everything held, shared or not.
    pub fn bytes(&self) -> usize {
        let mut total = 0;
        self.parts(&mut |_, bytes| total += bytes);
        total
    }

    /// Tells address and bytes of everything held; what is shared has one address.
    pub fn parts(&self, tell: &mut dyn FnMut(usize, usize)) {
        self.target.parts(tell);
        self.proposers().for_each(|(_, kept)| kept.parts(tell));
        tell(self.ids.as_ptr().addr(), size_of_val(self.ids.as_slice()));
    }
}
