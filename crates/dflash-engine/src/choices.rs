use dflash_tensor::BackendError;

use crate::commit::commit;
use crate::sampling::{Rule, TokenLogprobs};
use crate::scratch::{Scratch, logits};
use crate::sequence::Sequence;
use crate::{Decoder, EngineError};

/// What the pass holds for those who choose: of all sequences together, so that the head is read once.
///
/// # Errors
/// The backend's. A NaN is none: it may stand after a wrong id, which plain decoding never sees, so each sequence then
/// goes row by row.
pub(crate) fn prepare(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seqs: &mut [Sequence],
) -> Result<(), EngineError> {
    scratch.listed.clear();
    for seq in seqs.iter_mut().filter(|seq| seq.rows() > 0) {
        let first = scratch.listed.len();
        seq.own(|seq| {
            seq.block.choices = (!seq.block.chosen.is_empty() && seq.takes_highest()).then_some(first);
            Ok(())
        });
        if seq.block.choices.is_some() {
            scratch.listed.extend(seq.block.chosen.clone());
        }
    }
    if !scratch.listed.is_empty() {
        match scratch.choose(decoder) {
            Err(EngineError::Backend(BackendError::NotANumber { .. })) => {
                seqs.iter_mut().for_each(|seq| seq.block.choices = None);
                return Ok(());
            }
            done => done?,
        }
    }
    scratch.listed.clear();
    for seq in seqs
        .iter_mut()
        .filter(|seq| seq.rows() > 0 && seq.block.choices.is_none() && !seq.block.chosen.is_empty())
    {
        seq.block.logits = Some(scratch.listed.len());
        scratch.listed.extend(seq.block.chosen.clone());
    }
    if !scratch.listed.is_empty() {
        logits(decoder, &scratch.workspace, &scratch.listed, &mut scratch.logits);
    }
    Ok(())
}

/// Commits the target's choices at the rows of a sequence: the drafted ids that equal them, then the first that does
/// not, as far as the request goes. The rows that they were chosen at are the block's path.
pub(crate) fn choose(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
) -> Result<(), EngineError> {
    seq.block.path.push(0);
    let mut late = false;
    let mut next = Some(0);
    while let Some(row) = next.filter(|_| seq.finish.is_none()) {
        let highest = seq.block.choices.filter(|_| seq.takes_highest());
        let id = match highest {
            Some(first) => scratch.choices[first + row].id,
            None => {
                if seq.block.logits.is_none() && !late {
                    scratch.listed.clear();
                    scratch.listed.extend(seq.block.chosen.clone());
                    logits(decoder, &scratch.workspace, &scratch.listed, &mut scratch.late);
                    late = true;
                }
                choice(decoder, scratch, seq, row)?
            }
        };
        seq.block.accepted.push(id);
        seq.block.delivered += usize::from(commit(seq, id));
        next = seq.block.step(row, id);
    }
    Ok(())
}

/// The choice at a row whose logits are there; it sees the ids before it.
fn choice(decoder: &Decoder, scratch: &Scratch, seq: &mut Sequence, row: usize) -> Result<u32, EngineError> {
    let Sequence { sampling, choice, prompt, ids, guard, logprobs, sampler, block, .. } = seq;
    let (logits, at) = match block.logits {
        Some(first) => (&scratch.logits, first + row),
        None => (&scratch.late, row),
    };
    let mut values = decoder.target().backend().read(logits.as_ref().expect("computed logits"), at);
    values.truncate(decoder.target().spec().vocab);
    let rule = Rule { params: sampling, choice: *choice, prompt: *prompt };
    let distribution = match guard.as_mut().and_then(|guard| guard.allowed()) {
        Some(mask) => sampler.distribution_among(&rule, ids, mask, &values),
        None => sampler.distribution(&rule, ids, &[], &values).map(Some),
    };
    let row = block.chosen.start + row;
    let distribution = distribution.map_err(|id| BackendError::NotANumber { row, id })?;
    let distribution = distribution.ok_or(EngineError::NothingAllowed { position: ids.len() })?;
    let id = distribution.choice();
    block.logprobs.extend(logprobs.map(|alternatives| TokenLogprobs::of(&values, id, alternatives)));
    Ok(id)
}
