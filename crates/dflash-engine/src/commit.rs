use crate::sequence::Sequence;
use crate::{FinishReason, Verdict};

/// The one way an id joins a sequence: through stop ids, guard and budget. Returns whether it is delivered.
///
/// A stop inside the budget is a stop, also at the very last id.
pub(crate) fn commit(seq: &mut Sequence, id: u32) -> bool {
    seq.ids.push(id);
    let delivered = belongs(seq, id);
    seq.stats.completion_tokens += usize::from(delivered);
    if seq.finish.is_none() && seq.remaining() == 0 {
        seq.finish = Some(FinishReason::Length);
    }
    delivered
}

/// Whether the id belongs to the answer; ends the sequence where it must.
fn belongs(seq: &mut Sequence, id: u32) -> bool {
    if seq.stop_ids.contains(&id) {
        seq.finish = Some(FinishReason::Stop);
        return true;
    }
    match seq.guard.as_mut().map_or(Verdict::Go, |guard| guard.push(id)) {
        Verdict::Go => true,
        Verdict::Stop { keep } => {
            seq.finish = Some(FinishReason::Stop);
            keep
        }
    }
}
