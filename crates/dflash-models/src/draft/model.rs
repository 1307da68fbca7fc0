use std::sync::Arc;

use dflash_tensor::{
    Among, Backend, BackendError, Choice, Keep, KvCache, KvGeometry, LayerCache, Pre, SeqCache, Shape,
    Tensor, Weight,
};

use super::markov::MarkovHead;
use super::state::{DraftState, DraftWorkspace, with_caches};
use super::tables::Tables;
use crate::DraftQuant;
use crate::layer::Layer;
use crate::pass::Pass;
use crate::workspace::{Workspace, grow};

/// How a draft is loaded and what of the context it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftOptions {
    /// Leading context rows that are always kept.
    pub sink: usize,
    /// Trailing context rows that are kept, at least; `None` keeps the whole context.
    pub window: Option<usize>,
    /// Quantises the float matrices of the draft's layers.
    pub quant: Option<DraftQuant>,
}

impl Default for DraftOptions {
    fn default() -> Self {
        Self { sink: 64, window: Some(1024), quant: None }
    }
}

/// Facts of a draft that its users need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftSpec {
    /// Trained block length, the staged token included: the largest width of [`Draft::propose`].
    pub block: usize,
    /// Id that stands for the positions to be filled.
    pub mask_id: u32,
    /// Target layers whose outputs are the features, in the order of their columns.
    pub taps: Vec<usize>,
    /// Draft layers.
    pub layers: usize,
    /// Target ids it can propose.
    pub vocab: usize,
    /// Context rows it keeps; `None` keeps all.
    pub keep: Option<Keep>,
    /// Bytes of its packed weights, without tables shared with the target.
    pub weight_bytes: u64,
    /// What a user may want to know, such as tensors that were skipped.
    pub notes: Vec<String>,
}

/// A block-diffusion draft. Immutable after load; all state is in [`DraftState`].
pub struct Draft {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) spec: DraftSpec,
    pub(super) hidden: usize,
    pub(super) kv: KvGeometry,
    /// `[hidden, taps * target hidden]`.
    pub(super) fuse: Weight,
    pub(super) context_norm: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Tensor,
    pub(super) eps: f32,
    pub(super) tables: Tables,
    pub(super) markov: Option<MarkovHead>,
}

impl Draft {
    /// Facts.
    pub fn spec(&self) -> &DraftSpec {
        &self.spec
    }

    /// State of one sequence without tokens.
    pub fn new_state(&self) -> DraftState {
        let layer = |_| LayerCache::Kv(KvCache::new(self.kv, self.spec.keep));
        let cache = SeqCache::new((0..self.layers.len()).map(layer).collect());
        DraftState::new(self.backend.as_ref(), cache, self.fuse.cols())
    }

    /// Scratch for all calls, one per thread of work.
    pub fn workspace(&self) -> DraftWorkspace {
        let scratch = Workspace::new(Arc::clone(&self.backend), self.hidden);
        let mut workspace =
            DraftWorkspace::new(self.backend.as_ref(), scratch, self.fuse.cols(), self.hidden);
        workspace.correction = self.markov.as_ref().map(|head| head.scratch(self.backend.as_ref()));
        workspace
    }

    /// One pass over the block `[staged, mask, ...]` of `width` positions for every sequence. `out[i]` takes
    /// the `width - 1` choices of sequence `i`: target ids, with logit and logsumexp of the draft's own
    /// distribution. What `out` held before is lost.
    ///
    /// # Errors
    /// A NaN logit or a device error; the states are as before.
    ///
    /// # Panics
    /// When `width` is below 2 or above the block, or there are not as many staged ids as states.
    pub fn propose(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
        out: &mut Vec<Vec<Choice>>,
    ) -> Result<(), BackendError> {
        if self.markov.is_some() {
            return self.propose_in_turn(ws, states, staged, width, out);
        }
        self.run_block(ws, states, staged, width);
        self.choose(ws, states.len(), width, out)
    }

    /// The logits of the block rows that `propose` chooses from, `[states * (width - 1), rows of the head]`: `out`
    /// comes from [`Draft::logit_rows`]. [`Draft::target_logits`] says what they mean. Those of a draft with a Markov
    /// head are whole when [`Draft::follow`] has seen their position.
    pub fn logits(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
        out: &mut Tensor,
    ) {
        self.run_block(ws, states, staged, width);
        let rows = block_rows(states.len(), width).collect::<Vec<_>>();
        grow(self.backend.as_ref(), out, rows.len());
        self.backend.logits(&self.tables.head, &ws.scratch.h, &rows, self.final_norm(), out);
        if let Some(cap) = self.tables.softcap {
            self.backend.softcap(cap, out);
        }
    }

    /// Adds to the logits of position `position` of every block what a Markov head says of the ids before it,
    /// `previous`: the staged ids at first, then those that position by position were chosen. Nothing without such a
    /// head.
    pub fn follow(
        &self,
        ws: &mut DraftWorkspace,
        logits: &mut Tensor,
        width: usize,
        position: usize,
        previous: &[u32],
    ) {
        if let (Some(head), Some(scratch)) = (&self.markov, &mut ws.correction) {
            let rows = (0..previous.len()).map(|sequence| sequence * (width - 1) + position);
            head.correct(self.backend.as_ref(), scratch, previous, rows, logits);
        }
    }

    /// A tensor for [`Draft::logits`].
    pub fn logit_rows(&self) -> Tensor {
        self.backend.tensor(1, self.tables.head.rows())
    }

    /// Row `row` of [`Draft::logits`] by target id; ids that the draft cannot propose have `-inf`, or are beyond the
    /// end.
    pub fn target_logits(&self, logits: &Tensor, row: usize, out: &mut Vec<f32>) {
        let mut values = self.backend.read(logits, row);
        values.truncate(self.tables.vocab);
        match &self.tables.ids {
            None => *out = values,
            Some(ids) => {
                out.clear();
                out.resize(self.tables.ids_below, f32::NEG_INFINITY);
                ids.iter().zip(values).for_each(|(&id, value)| out[id as usize] = value);
            }
        }
    }

    fn final_norm(&self) -> Pre<'_> {
        Pre::RmsNorm { weight: &self.norm, eps: self.eps }
    }

    fn run_block(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
    ) {
        assert!((2..=self.spec.block).contains(&width), "width {width} of a block of {}", self.spec.block);
        assert_eq!(states.len(), staged.len(), "one staged id per sequence");
        self.flush(ws, states);
        ws.batch.clear();
        for (state, &id) in states.iter_mut().zip(staged) {
            ws.ids.clear();
            ws.ids.push(id);
            ws.ids.resize(width, self.spec.mask_id);
            ws.batch.push(&ws.ids, state.cache.len(), Shape::Chain);
            state.cache.begin_verify(width);
        }
        self.run_layers(ws, states);
        states.iter_mut().for_each(|state| state.cache.accept_chain(0));
    }

    fn run_layers(&self, ws: &mut DraftWorkspace, states: &mut [&mut DraftState]) {
        let backend = self.backend.as_ref();
        ws.scratch.begin(ws.batch.rows());
        let Tables { embedding, scale, .. } = &self.tables;
        backend.embed(embedding, ws.batch.ids(), *scale, &mut ws.scratch.h);
        with_caches(states, |caches| {
            let mut pass = Pass { backend, batch: &ws.batch, caches, ws: &mut ws.scratch };
            self.layers.iter().enumerate().for_each(|(index, layer)| layer.forward(&mut pass, index));
        });
    }

    fn choose(
        &self,
        ws: &mut DraftWorkspace,
        states: usize,
        width: usize,
        out: &mut Vec<Vec<Choice>>,
    ) -> Result<(), BackendError> {
        ws.rows.clear();
        ws.rows.extend(block_rows(states, width));
        ws.choices.clear();
        let Tables { head, vocab, softcap, ids, .. } = &self.tables;
        let among = Among { vocab: *vocab, softcap: *softcap };
        self.backend.choose(head, &ws.scratch.h, &ws.rows, self.final_norm(), among, &mut ws.choices)?;
        if let Some(ids) = ids {
            ws.choices.iter_mut().for_each(|choice| choice.id = ids[choice.id as usize]);
        }
        out.resize_with(states, Vec::new);
        for (list, choices) in out.iter_mut().zip(ws.choices.chunks_exact(width - 1)) {
            list.clear();
            list.extend_from_slice(choices);
        }
        Ok(())
    }
}

/// The mask rows of all blocks; the row of the staged token predicts nothing.
fn block_rows(states: usize, width: usize) -> impl Iterator<Item = usize> {
    (0..states * width).filter(move |row| row % width != 0)
}
