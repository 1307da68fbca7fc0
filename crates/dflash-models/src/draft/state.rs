use dflash_tensor::{Backend, Batch, Choice, SeqCache, Tensor};

use super::markov::Correction;
use crate::workspace::Workspace;

/// Feature rows that wait for the next draft at most.
pub(super) const PENDING_ROWS: usize = 32;

/// What a draft knows of one sequence: keys and values of its context, and rows not projected yet.
pub struct DraftState {
    pub(super) cache: SeqCache,
    /// `[PENDING_ROWS, taps * target hidden]`; its rows in use continue the cache.
    pub(super) pending: Tensor,
}

impl DraftState {
    pub(super) fn new(backend: &dyn Backend, cache: SeqCache, features: usize) -> Self {
        let mut pending = backend.tensor(PENDING_ROWS, features);
        pending.set_rows(0);
        Self { cache, pending }
    }

    /// Context rows: must equal the committed positions at every draft.
    pub fn len(&self) -> usize {
        self.cache.len() + self.pending.rows()
    }

    /// Whether it has seen nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values held.
    pub fn bytes(&self) -> usize {
        self.cache.bytes()
    }
}

/// Scratch of a draft, reused from call to call; it grows when a call has more rows than ever before.
pub struct DraftWorkspace {
    /// The block pass.
    pub(super) scratch: Workspace,
    /// Feature rows to be projected.
    pub(super) features: Tensor,
    /// Fused features, before and after their norm.
    pub(super) fused: Tensor,
    pub(super) context: Tensor,
    pub(super) batch: Batch,
    pub(super) ids: Vec<u32>,
    /// Rows that are chosen at, or new rows of every sequence.
    pub(super) rows: Vec<usize>,
    pub(super) choices: Vec<Choice>,
    /// Of a block, where more than the choices was asked for.
    pub(super) logits: Option<Tensor>,
    /// Ids that positions follow.
    pub(super) previous: Vec<u32>,
    /// Of the Markov head, if there is one.
    pub(super) correction: Option<Correction>,
}

/// Calls `body` with the caches of `states`. A single one, as decoding has it, takes no list.
pub(super) fn with_caches(states: &mut [&mut DraftState], body: impl FnOnce(&mut [&mut SeqCache])) {
    match states {
        [state] => body(&mut [&mut state.cache]),
        states => body(&mut states.iter_mut().map(|state| &mut state.cache).collect::<Vec<_>>()),
    }
}

impl DraftWorkspace {
    pub(super) fn new(backend: &dyn Backend, scratch: Workspace, features: usize, hidden: usize) -> Self {
        let tensor = |cols| backend.tensor(1, cols);
        Self {
            scratch,
            features: tensor(features),
            fused: tensor(hidden),
            context: tensor(hidden),
            batch: Batch::new(),
            ids: Vec::new(),
            rows: Vec::new(),
            choices: Vec::new(),
            logits: None,
            previous: Vec::new(),
            correction: None,
        }
    }
}
