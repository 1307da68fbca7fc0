use dflash_tensor::KeyHeadMap;

use super::layout::Layout;
use crate::disjoint::Disjoint;

/// The steps of the rows of a pass, kept so that some of them can be repeated.
pub(crate) struct Tape {
    layout: Layout,
    rows: usize,
    steps: Vec<f32>,
    /// Which key head the steps of a value head read.
    pub(crate) key_heads: KeyHeadMap,
}

/// What a row did.
pub(crate) struct Step<'a> {
    /// The row before the convolution.
    pub(crate) raw: &'a [f32],
    /// Normalised keys, `[key_heads * key_dim]`.
    pub(crate) k: &'a [f32],
    /// Decay of every value head.
    pub(crate) g: &'a [f32],
    /// `[value_heads * value_dim]`.
    pub(crate) delta: &'a [f32],
}

impl Tape {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, rows: 0, steps: Vec::new(), key_heads: KeyHeadMap::Grouped }
    }

    /// Room for a pass of `rows` rows; the leftovers of another one are in it.
    pub(crate) fn begin(&mut self, rows: usize, key_heads: KeyHeadMap) {
        (self.rows, self.key_heads) = (rows, key_heads);
        self.steps.resize(rows * self.width(), 0.0);
    }

    fn width(&self) -> usize {
        self.layout.tape().iter().sum()
    }

    /// Rows that threads write at the same time, each with [`record`].
    pub(crate) fn rows_mut(&mut self) -> Disjoint<'_, f32> {
        Disjoint::new(&mut self.steps)
    }

    /// The step of row `row`.
    pub(crate) fn step(&self, row: usize) -> Step<'_> {
        let ([raw, k, g, delta], width) = (self.layout.tape(), self.width());
        let (raw, rest) = self.steps[row * width..][..width].split_at(raw);
        let (k, rest) = rest.split_at(k);
        let (g, rest) = rest.split_at(g);
        Step { raw, k, g, delta: &rest[..delta] }
    }

    /// Bytes of the steps of the last pass.
    pub(crate) fn bytes(&self) -> usize {
        self.rows * self.width() * size_of::<f32>()
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.steps.capacity() * size_of::<f32>()
    }
}

/// Writes a row of the tape.
pub(crate) fn record(step: &Step<'_>, mut row: &mut [f32]) {
    for part in [step.raw, step.k, step.g, step.delta] {
        let own = row.split_off_mut(..part.len()).expect("a row of the tape has room for all parts");
        own.copy_from_slice(part);
    }
}
