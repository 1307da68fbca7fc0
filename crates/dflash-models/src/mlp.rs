use dflash_tensor::{Activation, Backend, Pre, Tail, Tensor, Weight};

use crate::dense_layer::unpacked;
use crate::loader::{BiasRule, Loader};
use crate::pass::{Pass, Sink};
use crate::{DenseLayer, ModelError};

/// Sizes and habits of a gated MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MlpShape {
    pub(crate) hidden: usize,
    pub(crate) ffn: usize,
    pub(crate) activation: Activation,
    pub(crate) bias: BiasRule,
}

/// `down · (act(gate · x) * up · x)`.
pub(crate) struct Mlp {
    gate_up: Weight,
    down: Weight,
    activation: Activation,
}

impl Mlp {
    /// Reads the MLP whose tensors begin with `prefix` (without the dot).
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &MlpShape,
    ) -> Result<Self, ModelError> {
        let MlpShape { hidden, ffn, activation, bias } = *shape;
        let mut matrix = |name: &str, rows, cols| loader.wanted(format!("{prefix}.{name}"), rows, cols, bias);
        let [gate, up] = [matrix("gate_proj", ffn, hidden)?, matrix("up_proj", ffn, hidden)?];
        let down = matrix("down_proj", hidden, ffn)?;
        Ok(Self { gate_up: loader.weight(&[gate, up])?, down: loader.weight(&[down])?, activation })
    }

    /// `layer` with its own matrices; `None` where its gate is not SiLU.
    pub(crate) fn dense(&self, backend: &dyn Backend, layer: DenseLayer) -> Option<DenseLayer> {
        let [gate, up] = (self.activation == Activation::Silu).then(|| unpacked(backend, &self.gate_up))?;
        let [down] = unpacked(backend, &self.down);
        Some(DenseLayer { ffn: self.down.cols(), gate, up, down, ..layer })
    }

    /// The MLP of `pre` of the residual stream.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, pre: Pre<'_>, sink: Sink<'_>) {
        let mut act = pass.ws.take(self.down.cols());
        pass.backend.linear(&self.gate_up, &pass.ws.h, pre, self.tail(), &mut [&mut act]);
        pass.output(&self.down, &act, sink);
        pass.ws.put([act]);
    }

    /// The MLP of `x`, stored in `out`.
    pub(crate) fn apply(&self, pass: &mut Pass<'_, '_>, x: &Tensor, out: &mut Tensor) {
        let mut act = pass.ws.take(self.down.cols());
        pass.backend.linear(&self.gate_up, x, Pre::None, self.tail(), &mut [&mut act]);
        pass.output(&self.down, &act, Sink::Store(out));
        pass.ws.put([act]);
    }

    fn tail(&self) -> Tail {
        Tail::Glu(self.activation)
    }
}
