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
    /// `[ids - 1, hidden]` or more rows: what the target's last layer holds at each id; or nothing.
    pub last: &'a [f32],
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
    /// `[blocks, block - 1, hidden]`: what the target's last layer holds one position before each slot, zeros where
    /// there is no id; nothing where a sample had nothing of it.
    pub last: Vec<f32>,
    /// `[block - 1]`: what an error at each slot weighs.
    pub weights: Vec<f32>,
}

impl Batch {
    /// Without blocks, which will have `block` positions; `decay` as in [`BatchOptions`].
    ///
    /// # Panics
    /// When `block` is below 2.
    pub fn new(block: usize, decay: f32) -> Self {
        assert!(block > 1, "a block of {block} has no slot");
        Self {
            block,
            features: Vec::new(),
            spans: Vec::new(),
            anchors: Vec::new(),
            staged: Vec::new(),
            truth: Vec::new(),
            labels: Vec::new(),
            last: Vec::new(),
            weights: (0..block - 1).map(|slot| (-(slot as f32) / decay).exp()).collect(),
        }
    }

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
        let mut batch = Self::new(options.block, options.decay);
        for sample in samples {
            let last = sample.ids.len().saturating_sub(1);
            let drawn = anchors.draw(sample.prompt.min(last)..last, options.anchors);
            batch.push(sample, shape, &drawn);
        }
        batch
    }

    /// Adds a sequence with blocks at the positions `anchors`, which ascend.
    ///
    /// # Panics
    /// When the sample has no ids or too few features for an anchor.
    pub fn push(&mut self, sample: &Sample<'_>, shape: &DraftShape, anchors: &[usize]) {
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
            if !sample.last.is_empty() {
                self.push_last(sample, shape.hidden, anchor);
            }
        }
    }

    fn push_last(&mut self, sample: &Sample<'_>, hidden: usize, anchor: usize) {
        let begin = self.last.len();
        let rows = anchor..sample.ids.len().saturating_sub(1).min(anchor + self.slots());
        self.last.extend_from_slice(&sample.last[rows.start * hidden..rows.end * hidden]);
        self.last.resize(begin + self.slots() * hidden, 0.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_target_saw_stands_one_position_before_each_slot() {
        let shape = DraftShape {
            hidden: 2,
            layers: 1,
            ffn: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            rms_norm_eps: 1e-5,
            rope_theta: 1e4,
            context: 16,
            block: 4,
            mask_id: 0,
            taps: vec![0],
            target_layers: 1,
            target_vocab: 10,
            vocab: None,
            markov_rank: 0,
        };
        let last: Vec<f32> = (0..5).flat_map(|row| [row as f32, 10.0 + row as f32]).collect();
        let sample = Sample { ids: &[1, 2, 3, 4, 5, 6], prompt: 1, features: &[0.0; 10], last: &last };
        let mut batch = Batch::new(4, 1.0);
        batch.push(&sample, &shape, &[1, 3]);
        assert_eq!(batch.truth, [Some(3), Some(4), Some(5), Some(5), Some(6), None]);
        let firsts: Vec<f32> = batch.last.iter().step_by(2).copied().collect();
        assert_eq!(firsts, [1.0, 2.0, 3.0, 3.0, 4.0, 0.0]);
    }
}
