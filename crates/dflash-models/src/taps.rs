use std::sync::Arc;

use dflash_tensor::{Backend, Tensor};

use crate::workspace::grow;

/// Outputs of selected target layers, gathered during a forward pass: what a draft is conditioned on.
///
/// A tap is the residual stream after decoder layer `l`, before any following norm, the final one included.
pub struct Taps {
    backend: Arc<dyn Backend>,
    layers: Vec<usize>,
    hidden: usize,
    rows: Tensor,
    stored: usize,
}

impl Taps {
    /// Taps on `layers` (0-based, in any order, which is kept) of a target of width `hidden`.
    pub fn new(backend: Arc<dyn Backend>, layers: &[usize], hidden: usize) -> Self {
        let mut rows = backend.tensor(1, layers.len() * hidden);
        rows.set_rows(0);
        Self { backend, layers: layers.to_vec(), hidden, rows, stored: 0 }
    }

    /// The tapped layers in the order of their columns.
    pub fn layers(&self) -> &[usize] {
        &self.layers
    }

    /// `[rows of the last pass, taps * hidden]`.
    pub fn rows(&self) -> &Tensor {
        &self.rows
    }

    /// Makes room for a pass of `rows` rows.
    pub(crate) fn begin(&mut self, rows: usize) {
        grow(self.backend.as_ref(), &mut self.rows, rows);
        self.stored = 0;
    }

    /// Keeps the output of `layer` if it is tapped.
    pub(crate) fn store(&mut self, layer: usize, output: &Tensor) {
        for place in (0..self.layers.len()).filter(|&place| self.layers[place] == layer) {
            self.backend.copy(output, 0, output.rows(), &mut self.rows, 0, place * self.hidden);
            self.stored += 1;
        }
    }

    /// Ends a pass.
    ///
    /// # Panics
    /// When a tapped layer did not run: its columns would be those of an earlier pass.
    pub(crate) fn end(&self) {
        assert_eq!(self.stored, self.layers.len(), "every tapped layer {:?} exists", self.layers);
    }
}
