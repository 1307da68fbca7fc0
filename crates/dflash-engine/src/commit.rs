use crate::sequence::Sequence;
use crate::{FinishReason, Verdict};

/// Ids that a pass settled.
pub(crate) struct Committed {
    /// Ids that joined the sequence: the rows the caches accept.
    pub ids: usize,
    /// Ids of those that are delivered; one less when the guard took the last one.
    pub delivered: usize,
}

/// The one way ids join a sequence: id by id through stop ids, guard and budget, nothing after an end.
///
/// A stop inside the budget is a stop, also at the very last id.
pub(crate) fn commit(seq: &mut Sequence, ids: &[u32]) -> Committed {
    let mut committed = Committed { ids: 0, delivered: 0 };
    for &id in ids {
        if seq.finish.is_some() {
            break;
        }
        committed.ids += 1;
        seq.ids.push(id);
        if deliver(seq, id) {
            committed.delivered += 1;
            seq.stats.completion_tokens += 1;
        }
        if seq.finish.is_none() && seq.remaining() == 0 {
            seq.finish = Some(FinishReason::Length);
        }
    }
    committed
}

/// Whether the id belongs to the answer; ends the sequence where it must.
fn deliver(seq: &mut Sequence, id: u32) -> bool {
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
