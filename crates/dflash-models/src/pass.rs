use dflash_tensor::{Backend, Batch, Pre, SeqCache, Tail, Tensor, Weight};

use crate::workspace::Workspace;

/// One forward pass on its way through the layers.
pub(crate) struct Pass<'a, 'b> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) batch: &'a Batch,
    /// One per span.
    pub(crate) caches: &'a mut [&'b mut SeqCache],
    pub(crate) ws: &'a mut Workspace,
}

/// Where the output of a sublayer goes.
pub(crate) enum Sink<'a> {
    /// Added to the residual stream.
    Residual,
    /// Stored.
    Store(&'a mut Tensor),
}

impl Pass<'_, '_> {
    /// A product of the residual stream with each part of a weight, in tensors that the caller gives back.
    pub(crate) fn project<const N: usize>(&mut self, weight: &Weight, pre: Pre<'_>) -> [Tensor; N] {
        let parts = weight.parts();
        assert_eq!(parts.len(), N, "outputs of the weight");
        let mut outs: [Tensor; N] = std::array::from_fn(|part| self.ws.take(parts[part].rows));
        self.backend.linear(weight, &self.ws.h, pre, Tail::Store, &mut outs.each_mut());
        outs
    }

    /// The output projection of a sublayer.
    pub(crate) fn output(&mut self, weight: &Weight, x: &Tensor, sink: Sink<'_>) {
        match sink {
            Sink::Residual => self.backend.linear(weight, x, Pre::None, Tail::Add, &mut [&mut self.ws.h]),
            Sink::Store(out) => self.backend.linear(weight, x, Pre::None, Tail::Store, &mut [out]),
        }
    }
}
