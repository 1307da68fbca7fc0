use dflash_tensor::BackendError;

use crate::cycle::Emit;
use crate::decoder::{Decoder, Scratch};
use crate::sampling::{Rule, TokenLogprobs};
use crate::sequence::Sequence;
use crate::{EngineError, Event};

/// The target's choices at the rows of the last pass from `first` on, of which the row after `first` follows the first
/// drafted id and so on: the drafted ids that equal them, then the first that does not, into `scratch.accepted`; the
/// rows that they were chosen at, into `scratch.path`.
pub(crate) fn choose(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &Sequence,
    first: usize,
) -> Result<(), EngineError> {
    scratch.accepted.clear();
    scratch.logprobs.clear();
    scratch.path.clear();
    scratch.path.push(0);
    if seq.sampling.is_plain() && seq.logprobs.is_none() {
        match choose_highest(decoder, scratch, first) {
            // Of a row after a wrong id, perhaps, which plain decoding never sees.
            Err(EngineError::Backend(BackendError::NotANumber { .. })) => {}
            done => return done,
        }
    }
    choose_by_rule(decoder, scratch, seq, first)
}

/// All rows at once, without storing their logits.
fn choose_highest(decoder: &Decoder, scratch: &mut Scratch, first: usize) -> Result<(), EngineError> {
    decoder.choose_from(scratch, first)?;
    let mut row = Some(0);
    while let Some(at) = row {
        let id = scratch.choices[at].id;
        scratch.accepted.push(id);
        row = scratch.step(at, id);
    }
    Ok(())
}

/// Row by row, as far as drafted ids are right: each choice sees the ids before it.
fn choose_by_rule(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &Sequence,
    first: usize,
) -> Result<(), EngineError> {
    decoder.logits_from(scratch, first);
    let rule = Rule { params: &seq.sampling, choice: seq.choice, prompt: seq.prompt };
    let mut next = Some(0);
    while let Some(row) = next {
        let Scratch { sampler, logits, accepted, logprobs, .. } = scratch;
        let mut values = decoder.target().backend().read(logits.as_ref().expect("computed logits"), row);
        values.truncate(decoder.target().spec().vocab);
        let distribution = sampler.distribution(&rule, &seq.ids, accepted, &values);
        let id = distribution.map_err(|id| BackendError::NotANumber { row: first + row, id })?.choice();
        logprobs.extend(seq.logprobs.map(|alternatives| TokenLogprobs::of(&values, id, alternatives)));
        accepted.push(id);
        next = scratch.step(row, id);
    }
    Ok(())
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
