use std::ops::Range;

use super::Anchors;
use crate::DraftShape;

/// A sequence with the features of its ids.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// Prompt, then answer.
    pub ids: &'a [u32],
    /// Ids of the prompt; anchors are drawn behind them.
    pub prompt: usize,
    /// `[ids - 1, taps * hidden]` or more rows: what the target's taps hold at each id.
    pub features: &'a [f32],
}

/// How blocks are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchOptions {
    /// Positions of a block, the anchor included.
    pub block: usize,
    /// Blocks of a sequence at most.
    pub anchors: usize,
    /// `gamma` of the weights `exp(-(k - 1) / gamma)` of the slots `k = 1, 2, ...`.
    pub decay: f32,
}

/// What the blocks of a sequence share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its rows in the context: the positions from 0 to the last that a block sees.
    pub context: Range<usize>,
    /// Its blocks, by ascending anchors.
    pub blocks: Range<usize>,
}

/// Blocks `[x_p, mask, ...]` at anchors `p`, each of which sees the context rows before `p` and its own rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Positions of a block.
    pub block: usize,
    /// `[context rows, taps * hidden]`, sequence after sequence.
    pub features: Vec<f32>,
    /// One for each sequence that has blocks.
    pub spans: Vec<Span>,
    /// Position of the anchor of each block; as many context rows of its sequence are seen.
    pub anchors: Vec<usize>,
    /// `[blocks]`: the id at the anchor.
    pub staged: Vec<u32>,
    /// `[blocks, block - 1]`: the id at each slot; `None` behind the end of the answer.
    pub truth: Vec<Option<u32>>,
    /// `[blocks, block - 1]`: the row of the head that stands for it; `None` where there is none.
    pub labels: Vec<Option<u32>>,
    /// `[block - 1]`: what an error at each slot weighs.
    pub weights: Vec<f32>,
}

impl Batch {
    /// Draws anchors from every answer. Sequences whose answer is shorter than two ids give none.
    ///
    /// # Panics
    /// When a sample has too few features for its ids, or `options.block` is below 2.
    pub fn draw(
        samples: &[Sample<'_>],
        shape: &DraftShape,
        options: BatchOptions,
        anchors: &mut Anchors,
    ) -> Self {
        let slots = options.block.checked_sub(1).filter(|&slots| slots > 0).expect("a block has a slot");
        let mut batch = Self {
            block: options.block,
            features: Vec::new(),
            spans: Vec::new(),
            anchors: Vec::new(),
            staged: Vec::new(),
            truth: Vec::new(),
            labels: Vec::new(),
            weights: (0..slots).map(|slot| (-(slot as f32) / options.decay).exp()).collect(),
        };
        for sample in samples {
            let last = sample.ids.len().saturating_sub(1);
            let drawn = anchors.draw(sample.prompt.min(last)..last, options.anchors);
            batch.push(sample, shape, &drawn);
        }
        batch
    }

    /// Adds a sequence with blocks at the positions `anchors`, which ascend.
    fn push(&mut self, sample: &Sample<'_>, shape: &DraftShape, anchors: &[usize]) {
        let Some(&seen) = anchors.last() else { return };
        let (rows, first) = (self.context_rows(), self.anchors.len());
        self.features.extend_from_slice(&sample.features[..seen * shape.features()]);
        self.anchors.extend_from_slice(anchors);
        self.spans.push(Span { context: rows..rows + seen, blocks: first..self.anchors.len() });
        for &anchor in anchors {
            self.staged.push(sample.ids[anchor]);
            let truth = (anchor + 1..anchor + self.block).map(|position| sample.ids.get(position).copied());
            self.labels.extend(truth.clone().map(|id| label(shape, id?)));
            self.truth.extend(truth);
        }
    }

    /// Rows of the context.
    pub fn context_rows(&self) -> usize {
        self.spans.last().map_or(0, |span| span.context.end)
    }

    /// Slots of a block.
    pub fn slots(&self) -> usize {
        self.block - 1
    }
}

/// The row of the head that stands for `id`.
fn label(shape: &DraftShape, id: u32) -> Option<u32> {
    match &shape.vocab {
        None => Some(id),
        Some(ids) => ids.binary_search(&id).ok().map(|row| row as u32),
    }
}
