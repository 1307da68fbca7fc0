use dflash_tensor::{ConvInputs, ConvSpec, Pre, RecurrentGeometry, Tensor, Weight};

use crate::ModelError;
use crate::checkpoint::Checkpoint;
use crate::loader::{BiasRule, Loader};
use crate::pass::{Pass, Sink};

/// More rows than any filter covers. The least is two: with one row the layout of a filter would not tell whether
/// a file was converted.
pub(crate) const MAX_KERNEL: usize = 8;

/// Sizes and habits of a gated short convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConvShape {
    pub(crate) hidden: usize,
    /// Rows that a filter covers.
    pub(crate) kernel: usize,
    /// Of the projections and of the convolution.
    pub(crate) bias: BiasRule,
}

/// A gated short convolution between its projections.
pub(crate) struct ShortConv {
    /// Gate before, gate after, rows.
    input: Weight,
    spec: ConvSpec,
    output: Weight,
}

impl ShortConv {
    /// Reads the layer whose tensors begin with `prefix` (without the dot).
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &ConvShape,
    ) -> Result<Self, ModelError> {
        let ConvShape { hidden, kernel, bias } = *shape;
        let input = loader.wanted(format!("{prefix}.in_proj"), 3 * hidden, hidden, bias)?;
        let third = |i: usize| input.rows_of((i * hidden..(i + 1) * hidden).map(|row| row as u32).collect());
        let input = loader.weight(&[third(0), third(1), third(2)])?;
        let filter = filter(loader, &format!("{prefix}.conv.weight"), hidden, kernel)?;
        let values = loader.bias(&format!("{prefix}.conv"), hidden, bias)?;
        let bias_row = values.map(|values| loader.tensor(hidden, &values));
        let output = loader.wanted(format!("{prefix}.out_proj"), hidden, hidden, bias)?;
        let spec = ConvSpec { filter, bias: bias_row };
        Ok(Self { input, spec, output: loader.weight(&[output])? })
    }

    /// What a sequence carries through the layer.
    pub(crate) fn geometry(&self) -> RecurrentGeometry {
        self.spec.recurrent()
    }

    /// The layer on `pre` of the residual stream; layer `layer` of the caches is its own.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, layer: usize, pre: Pre<'_>, sink: Sink<'_>) {
        let [before, after, x] = pass.project(&self.input, pre);
        let mut mixed = pass.ws.take(x.cols());
        let inputs = ConvInputs { before: &before, after: &after, x: &x };
        pass.backend.short_conv(&self.spec, layer, pass.batch, pass.caches, inputs, &mut mixed);
        pass.output(&self.output, &mixed, sink);
        pass.ws.put([before, after, x, mixed]);
    }
}

/// How a file lays out the filters of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvLayout {
    /// `[channels, 1, kernel]`: weights as they were trained.
    Raw,
    /// `[channels, kernel, 1]` or `[channels, kernel]`: a converter went over the file.
    Converted,
}

impl ConvLayout {
    /// The layout of a filter tensor, by its shape alone.
    pub(crate) fn of(checkpoint: &Checkpoint, name: &str) -> Self {
        match checkpoint.shape(name) {
            Some([_, _, kernel]) if *kernel != 1 => Self::Raw,
            _ => Self::Converted,
        }
    }
}

/// Reads filters in any layout as `[kernel, channels]`.
pub(crate) fn filter(
    loader: &mut Loader<'_, '_>,
    name: &str,
    channels: usize,
    kernel: usize,
) -> Result<Tensor, ModelError> {
    let values =
        loader.floats_of(name, &[&[channels, 1, kernel], &[channels, kernel, 1], &[channels, kernel]])?;
    let row = |tap: usize| values.iter().skip(tap).step_by(kernel).copied();
    let turned = (0..kernel).flat_map(row).collect::<Vec<_>>();
    Ok(loader.tensor(channels, &turned))
}
