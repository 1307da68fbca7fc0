use dflash_tensor::Shape;

use crate::cycle::{Emit, observe};
use crate::decoder::{Decoder, Scratch};
use crate::sequence::Sequence;
use crate::{EngineError, Event};

/// Rows of a pass at most: four times as many are hardly faster, and their activations take memory.
const MOST_ROWS: usize = 512;

/// Runs the prompt through the target in chunks. Returns false when nobody listens any more.
///
/// The chunks change no bit of it: prefill, verify and plain decoding are the same forward.
pub(crate) fn prefill(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    emit: &mut Emit<'_>,
) -> Result<bool, EngineError> {
    let total = seq.prompt;
    scratch.drafted.clear();
    scratch.parents.clear();
    let rows = decoder.options().prefill_chunk.clamp(1, MOST_ROWS);
    for start in (0..total).step_by(rows) {
        let end = (start + rows).min(total);
        let chunk = &seq.ids[start..end];
        scratch.batch.clear();
        scratch.batch.push(chunk, start, Shape::Chain);
        seq.cache.begin_prefill(chunk.len());
        decoder.forward(scratch, &mut seq.cache, seq.tapped);
        seq.cache.accept_chain(chunk.len());
        observe(decoder, scratch, seq, 0..end - start, total - end);
        if !emit(Event::PrefillProgress { done: end, total }) {
            return Ok(false);
        }
    }
    Ok(true)
}
