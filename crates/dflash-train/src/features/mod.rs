//! The target's features: what its tapped layers give for every id of a sequence, from the weights that are served.

mod cache;
mod chunk;
mod extractor;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use dflash_models::Target;
use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::live::Progress;
use crate::mix::mix;
use crate::{Sequence, TrainError};

pub use cache::FeatureCache;
use chunk::Chunk;
use extractor::Extractor;

/// The feature rows of sequences. They are computed once where there is a cache, and whenever they are asked for where
/// there is none or what it holds is damaged; the numbers are the same, as they are always rounded to f16.
pub struct Features<'a> {
    sequences: &'a [Sequence],
    width: usize,
    extractor: Mutex<Extractor<'a>>,
    /// In the order of the sequences; none without a cache.
    chunks: Vec<Chunk>,
}

impl<'a> Features<'a> {
    /// The outputs of the layers `taps` of `target`, in that order, for `sequences`. What `cache` lacks of them is
    /// computed; `progress` counts ids, is called after every pass of the target, and says whether to go on.
    ///
    /// # Errors
    /// A layer or an id that the target does not have, a cache that cannot be written or is too small, and
    /// [`TrainError::Ended`]: what is computed by then stays in the cache.
    pub fn open(
        cache: Option<&FeatureCache>,
        target: &'a dyn Target,
        taps: &[usize],
        sequences: &'a [Sequence],
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Self, TrainError> {
        check(target, taps, sequences)?;
        let width = taps.len() * target.spec().hidden;
        let mut extractor = Extractor::new(target, taps);
        let chunks = match cache {
            Some(cache) => fill(cache, &mut extractor, sequences, width, progress)?,
            None => Vec::new(),
        };
        Ok(Self { sequences, width, extractor: Mutex::new(extractor), chunks })
    }

    /// Columns of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Puts the rows of a sequence into `out`, `[ids - 1, width]`: the last id is nobody's context.
    pub fn rows(&self, sequence: usize, out: &mut Vec<f32>) {
        out.clear();
        let place = self.chunks.partition_point(|chunk| chunk.sequences().end <= sequence);
        let halves = self.chunks.get(place).and_then(|chunk| chunk.read(sequence));
        let halves = halves.unwrap_or_else(|| self.computed(sequence));
        out.resize(halves.len(), 0.0);
        halves.convert_to_f32_slice(out);
    }

    fn computed(&self, sequence: usize) -> Vec<f16> {
        let mut rows = Vec::with_capacity(context(&self.sequences[sequence]).len() * self.width);
        let mut extractor = self.extractor.lock().unwrap_or_else(PoisonError::into_inner);
        extractor.run(
            &[context(&self.sequences[sequence])],
            &mut |row| rows.extend(rounded(row)),
            &mut |_| (),
        );
        rows
    }
}

/// The ids whose features training looks at.
fn context(sequence: &Sequence) -> &[u32] {
    &sequence.ids[..sequence.ids.len().saturating_sub(1)]
}

/// As f16; what is larger than its largest number becomes that.
fn rounded(row: &[f32]) -> impl Iterator<Item = f16> {
    let most = f16::MAX.to_f32();
    row.iter().map(move |value| f16::from_f32(value.clamp(-most, most)))
}

/// Whether the target has these layers, and the sequences may be its own.
///
/// # Errors
/// What it does not have, by name.
pub(crate) fn check(target: &dyn Target, taps: &[usize], sequences: &[Sequence]) -> Result<(), TrainError> {
    let spec = target.spec();
    if taps.is_empty() {
        return Err(TrainError::Refused("no layer of the target is tapped; name at least one".into()));
    }
    if let Some(layer) = taps.iter().find(|&&layer| layer >= spec.layers) {
        let last = spec.layers - 1;
        return Err(TrainError::Refused(format!(
            "the target has no layer {layer} to tap: its layers are 0 to {last}"
        )));
    }
    for (index, Sequence { ids, .. }) in sequences.iter().enumerate() {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= spec.vocab) {
            return Err(TrainError::Refused(format!(
                "sequence {index} has the id {id}, but the target has {} ids: it is not from this target",
                spec.vocab
            )));
        }
        if ids.len() > spec.context {
            return Err(TrainError::Refused(format!(
                "sequence {index} has {} ids, more than the {} positions of the target",
                ids.len(),
                spec.context
            )));
        }
    }
    Ok(())
}

/// The chunks of `sequences`, of which those are computed that are not in the cache.
fn fill(
    cache: &FeatureCache,
    extractor: &mut Extractor<'_>,
    sequences: &[Sequence],
    width: usize,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Vec<Chunk>, TrainError> {
    let print = extractor.fingerprint();
    let chunks: Vec<Chunk> = split(sequences, width)
        .into_iter()
        .map(|range| Chunk::new(cache.folder(), &print, range.start, &sequences[range], width))
        .collect();
    let missing: Vec<&Chunk> = chunks.iter().filter(|chunk| !chunk.is_there()).collect();
    cache.make_room(&chunks, missing.iter().map(|chunk| chunk.bytes()).sum())?;
    let total = missing.iter().map(|chunk| chunk.rows()).sum();
    let mut progress = Counter { progress: Progress::begin(total), tell: progress, go_on: true };
    missing.into_iter().try_for_each(|chunk| compute(extractor, chunk, sequences, &mut progress))?;
    Ok(chunks)
}

struct Counter<'a> {
    progress: Progress,
    tell: &'a mut dyn FnMut(&Progress) -> bool,
    go_on: bool,
}

fn compute(
    extractor: &mut Extractor<'_>,
    chunk: &Chunk,
    sequences: &[Sequence],
    counter: &mut Counter<'_>,
) -> Result<(), TrainError> {
    let ids: Vec<&[u32]> = sequences[chunk.sequences()].iter().map(context).collect();
    let mut rows = Vec::with_capacity(chunk.halves());
    extractor.run(&ids, &mut |row| rows.extend(rounded(row)), &mut |done| {
        counter.progress.add(done);
        counter.go_on &= (counter.tell)(&counter.progress);
    });
    chunk.write(&rows)?;
    if counter.go_on { Ok(()) } else { Err(TrainError::Ended) }
}

/// Bytes of a chunk at most, but for its last sequence: an interruption costs as much.
const CHUNK_BYTES: usize = 64 << 20;
/// One in so many sequences ends a chunk.
const CHUNK_SEQUENCES: u64 = 16;

/// Consecutive sequences by chunks. Where these end is decided by what they hold: sequences that come or go elsewhere
/// leave all other chunks as they are.
fn split(sequences: &[Sequence], width: usize) -> Vec<Range<usize>> {
    let (mut chunks, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, sequence) in sequences.iter().enumerate() {
        bytes += context(sequence).len() * width * size_of::<f16>();
        if bytes >= CHUNK_BYTES || ends_chunk(context(sequence)) || index + 1 == sequences.len() {
            chunks.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    chunks
}

fn ends_chunk(ids: &[u32]) -> bool {
    ids.iter().fold(0, |hash, &id| mix(hash, u64::from(id))).is_multiple_of(CHUNK_SEQUENCES)
}
