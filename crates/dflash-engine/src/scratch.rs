use std::sync::Arc;

use dflash_models::{Taps, Workspace};
use dflash_tensor::{Batch, Choice, Tensor};

use crate::block::Block;
use crate::width::Allotment;
use crate::{Decoder, EngineError, Offer};

/// Storage of the one step at a time, reused from step to step.
pub(crate) struct Scratch {
    pub workspace: Workspace,
    pub taps: Option<Taps>,
    pub batch: Batch,
    /// Ids of a span.
    pub ids: Vec<u32>,
    pub offers: Vec<Offer>,
    /// Rows of the batch that an id is chosen at.
    pub listed: Vec<usize>,
    /// At these, without their logits.
    pub choices: Vec<Choice>,
    /// At rows whose logits are needed.
    pub logits: Option<Tensor>,
    /// Of one sequence, where it turned out late that they are.
    pub late: Option<Tensor>,
    /// Tapped rows of a path through a tree, one after the other.
    gathered: Option<Tensor>,
    /// Shares the rows of a step among its sequences; `None` where costs decide nothing.
    pub allotment: Option<Allotment>,
}

impl Scratch {
    pub fn new(decoder: &Decoder) -> Self {
        let target = decoder.target();
        let layers = decoder.proposers().iter().map(|proposer| proposer.taps()).find(|taps| !taps.is_empty());
        let width = decoder.options().max_width();
        Self {
            workspace: target.workspace(),
            taps: layers.map(|layers| Taps::new(Arc::clone(target.backend()), layers, target.spec().hidden)),
            batch: Batch::new(),
            ids: Vec::with_capacity(width),
            offers: Vec::with_capacity(decoder.proposers().len()),
            listed: Vec::with_capacity(width),
            choices: Vec::with_capacity(width),
            logits: None,
            late: None,
            gathered: None,
            allotment: decoder.allotment(),
        }
    }

    /// The target's choices at the listed rows of the last pass.
    ///
    /// # Errors
    /// The backend's.
    pub fn choose(&mut self, decoder: &Decoder) -> Result<(), EngineError> {
        self.choices.clear();
        Ok(decoder.target().choose(&self.workspace, &self.listed, &mut self.choices)?)
    }

    /// The tapped rows of a block's path, and the first of them; of a chain they lie where they are.
    pub fn tapped(&mut self, decoder: &Decoder, block: &Block, rows: usize) -> (Option<&Tensor>, usize) {
        let Some(taps) = self.taps.as_ref() else { return (None, 0) };
        let source = taps.rows();
        if block.parents.is_empty() {
            return (Some(source), block.first_row);
        }
        let backend = decoder.target().backend();
        let out = self.gathered.take().filter(|tensor| tensor.capacity() >= rows);
        let mut out = out.unwrap_or_else(|| backend.tensor(rows, source.cols()));
        out.set_rows(rows);
        for (row, &from) in block.path[..rows].iter().enumerate() {
            backend.copy(source, block.first_row + from, 1, &mut out, row, 0);
        }
        self.gathered = Some(out);
        (self.gathered.as_ref(), 0)
    }
}

/// The target's logits at `rows` of the last pass, into a tensor that is reused.
pub(crate) fn logits(decoder: &Decoder, workspace: &Workspace, rows: &[usize], store: &mut Option<Tensor>) {
    let target = decoder.target();
    let out = store.take().filter(|tensor| tensor.capacity() >= rows.len());
    let mut out = out.unwrap_or_else(|| target.backend().tensor(rows.len(), target.head().rows()));
    out.set_rows(rows.len());
    target.logits(workspace, rows, &mut out);
    *store = Some(out);
}
