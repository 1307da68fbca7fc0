use std::ops::Range;

use dflash_tensor::{Keep, Pre, SeqCache, Shape, Tail, Tensor};

use super::model::Draft;
use super::state::{DraftState, DraftWorkspace, PENDING_ROWS, with_caches};
use crate::layer::Mixer;
use crate::pass::Pass;
use crate::workspace::grow;

impl Draft {
    /// Rows `rows` of `features`, one per committed token in order, join the context; `upcoming` more will
    /// follow before the next draft, so rows that neither sink nor window will keep are not projected.
    ///
    /// Few rows wait in the state until the next draft or until 32 are there; many are projected at once.
    pub fn observe(
        &self,
        ws: &mut DraftWorkspace,
        state: &mut DraftState,
        features: &Tensor,
        rows: Range<usize>,
        upcoming: usize,
    ) {
        let start = state.len();
        let end = start + rows.len();
        let hidden = hidden(self.spec.keep, start..end, end + upcoming);
        let row = |position: usize| rows.start + position - start;
        self.take(ws, state, features, row(start)..row(hidden.start));
        if !hidden.is_empty() {
            self.flush(ws, &mut [state]);
            skip(state, hidden.len());
        }
        self.take(ws, state, features, row(hidden.end)..row(end));
    }

    fn take(&self, ws: &mut DraftWorkspace, state: &mut DraftState, features: &Tensor, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        if state.pending.rows() + rows.len() > PENDING_ROWS {
            self.flush(ws, &mut [state]);
        }
        if rows.len() >= PENDING_ROWS {
            grow(self.backend.as_ref(), &mut ws.features, rows.len());
            self.backend.copy(features, rows.start, rows.len(), &mut ws.features, 0, 0);
            ws.rows.clear();
            ws.rows.push(rows.len());
            return self.project(ws, &mut [state]);
        }
        let waiting = state.pending.rows();
        state.pending.set_rows(waiting + rows.len());
        self.backend.copy(features, rows.start, rows.len(), &mut state.pending, waiting, 0);
    }

    /// The context so far, for later sequences that begin alike: nothing waits in it.
    pub fn keep(&self, ws: &mut DraftWorkspace, state: &mut DraftState) -> Option<SeqCache> {
        self.flush(ws, &mut [state]);
        state.cache.prefix(state.cache.len())
    }

    /// A state whose context is the first `len` rows of a kept one; `None` where that does not reach so far back.
    pub fn recall(&self, kept: &SeqCache, len: usize) -> Option<DraftState> {
        Some(DraftState::new(self.backend.as_ref(), kept.prefix(len)?, self.fuse.cols()))
    }

    /// Projects what waits in the states, all sequences in one pass.
    pub(super) fn flush(&self, ws: &mut DraftWorkspace, states: &mut [&mut DraftState]) {
        ws.rows.clear();
        ws.rows.extend(states.iter().map(|state| state.pending.rows()));
        let total = ws.rows.iter().sum();
        if total == 0 {
            return;
        }
        grow(self.backend.as_ref(), &mut ws.features, total);
        let mut row = 0;
        for state in states.iter_mut() {
            let rows = state.pending.rows();
            self.backend.copy(&state.pending, 0, rows, &mut ws.features, row, 0);
            state.pending.set_rows(0);
            row += rows;
        }
        self.project(ws, states);
    }

    /// Appends keys and values of the rows in `ws.features` to the caches, `ws.rows[i]` rows for state `i`.
    fn project(&self, ws: &mut DraftWorkspace, states: &mut [&mut DraftState]) {
        let backend = self.backend.as_ref();
        self.fuse(ws);
        ws.batch.clear();
        for (state, &count) in states.iter_mut().zip(&ws.rows) {
            ws.ids.clear();
            ws.ids.resize(count, self.spec.mask_id);
            ws.batch.push(&ws.ids, state.cache.len(), Shape::Chain);
            state.cache.begin_prefill(count);
        }
        ws.scratch.begin(ws.context.rows());
        with_caches(states, |caches| {
            let mut pass = Pass { backend, batch: &ws.batch, caches, ws: &mut ws.scratch };
            for (index, layer) in self.layers.iter().enumerate() {
                let Mixer::Attention(attention) = layer.mixer() else {
                    unreachable!("drafts have attention")
                };
                attention.append(&mut pass, index, &ws.context);
            }
        });
        states.iter_mut().zip(&ws.rows).for_each(|(state, &count)| state.cache.accept_chain(count));
    }

    /// The context rows: projected features after their norm. No layer's input norm follows.
    fn fuse(&self, ws: &mut DraftWorkspace) {
        let backend = self.backend.as_ref();
        let rows = ws.features.rows();
        [&mut ws.fused, &mut ws.context].into_iter().for_each(|tensor| grow(backend, tensor, rows));
        backend.linear(&self.fuse, &ws.features, Pre::None, Tail::Store, &mut [&mut ws.fused]);
        backend.rms_norm(&ws.fused, &self.context_norm, self.eps, &mut ws.context);
    }
}

/// Positions of `new` that no later draft sees, when the next one begins at `next`.
fn hidden(keep: Option<Keep>, new: Range<usize>, next: usize) -> Range<usize> {
    let Some(Keep { sink, tail }) = keep else { return new.end..new.end };
    let first = sink.clamp(new.start, new.end);
    let last = next.saturating_sub(tail).clamp(first, new.end);
    first..last
}

/// Moves the length over positions that are never read.
fn skip(state: &mut DraftState, rows: usize) {
    state.cache.begin_prefill(rows);
    state.cache.accept_chain(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_between_sink_and_tail_are_hidden() {
        let keep = Some(Keep { sink: 2, tail: 3 });
        assert_eq!(hidden(keep, 0..8, 8), 2..5);
        assert_eq!(hidden(keep, 8..10, 10), 8..8);
        assert_eq!(hidden(keep, 0..4, 20), 2..4);
        assert_eq!(hidden(keep, 4..8, 8), 4..5);
        assert_eq!(hidden(keep, 0..5, 5), 2..2);
        assert_eq!(hidden(None, 0..100, 100), 100..100);
    }
}
