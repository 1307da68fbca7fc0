use dflash_tensor::BackendError;

use crate::commit::commit;
use crate::cycle::Emit;
use crate::decoder::{Decoder, Scratch};
use crate::sampling::{Rule, TokenLogprobs};
use crate::sequence::Sequence;
use crate::{EngineError, Event};

/// Ids that a pass settled.
pub(crate) struct Committed {
    /// Ids that joined the sequence: the rows the caches accept.
    pub ids: usize,
    /// Ids of those that are delivered; one less when the guard took the last one.
    pub delivered: usize,
}

/// Commits the target's choices at the rows of the last pass from `first` on, of which the row after `first` follows
/// the first drafted id and so on: the drafted ids that equal them, then the first that does not, as far as the request
/// goes. The rows that they were chosen at are in `scratch.path` afterwards.
pub(crate) fn choose(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    first: usize,
) -> Result<Committed, EngineError> {
    scratch.accepted.clear();
    scratch.logprobs.clear();
    scratch.choices.clear();
    scratch.has_logits = false;
    scratch.path.clear();
    scratch.path.push(0);
    if seq.takes_highest() {
        match decoder.choose_from(scratch, first) {
            // Of a row after a wrong id, perhaps, which plain decoding never sees.
            Err(EngineError::Backend(BackendError::NotANumber { .. })) => scratch.choices.clear(),
            done => done?,
        }
    }
    let mut delivered = 0;
    let mut next = Some(0);
    while let Some(row) = next.filter(|_| seq.finish.is_none()) {
        let id = choice(decoder, scratch, seq, first, row)?;
        scratch.accepted.push(id);
        delivered += usize::from(commit(seq, id));
        next = scratch.step(row, id);
    }
    Ok(Committed { ids: scratch.accepted.len(), delivered })
}

/// The target's choice at a row, which sees the ids before it.
fn choice(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    first: usize,
    row: usize,
) -> Result<u32, EngineError> {
    if seq.takes_highest()
        && let Some(choice) = scratch.choices.get(row)
    {
        return Ok(choice.id);
    }
    if !scratch.has_logits {
        decoder.logits_from(scratch, first);
    }
    let Sequence { sampling, choice, prompt, ids, guard, logprobs, .. } = seq;
    let Scratch { sampler, logits, logprobs: told, .. } = scratch;
    let mut values = decoder.target().backend().read(logits.as_ref().expect("computed logits"), row);
    values.truncate(decoder.target().spec().vocab);
    let rule = Rule { params: sampling, choice: *choice, prompt: *prompt };
    let distribution = match guard.as_mut().and_then(|guard| guard.allowed()) {
        Some(mask) => sampler.distribution_among(&rule, ids, mask, &values),
        None => sampler.distribution(&rule, ids, &[], &values).map(Some),
    };
    let distribution = distribution.map_err(|id| BackendError::NotANumber { row: first + row, id })?;
    let distribution = distribution.ok_or(EngineError::NothingAllowed { position: ids.len() })?;
    let id = distribution.choice();
    told.extend(logprobs.map(|alternatives| TokenLogprobs::of(&values, id, alternatives)));
    Ok(id)
}

/// Tells the first `delivered` of the accepted ids. Returns false when nobody listens any more.
pub(crate) fn deliver(scratch: &mut Scratch, delivered: usize, emit: &mut Emit<'_>) -> bool {
    if delivered == 0 {
        return true;
    }
    scratch.logprobs.truncate(delivered);
    let told = scratch.logprobs.is_empty() || emit(Event::Logprobs(std::mem::take(&mut scratch.logprobs)));
    told && emit(Event::Tokens(scratch.accepted[..delivered].to_vec()))
}
