use dflash_tensor::{Pre, Tensor};

use super::inputs::InputGate;
use super::mixture::Mixture;
use crate::attention::Attention;
use crate::mlp::Mlp;
use crate::pass::{Pass, Sink};

/// A decoder layer with norms before and after each of its parts.
pub(super) struct Layer {
    /// Layer of the caches with its keys and values.
    pub(super) cache: usize,
    pub(super) attention: Attention,
    pub(super) mlp: Mlp,
    pub(super) mixture: Option<Mixture>,
    pub(super) input: Option<InputGate>,
    pub(super) norms: Norms,
    pub(super) eps: f32,
    /// Multiplies the residual stream after the layer.
    pub(super) scalar: f32,
}

/// Gains around attention and around the MLP.
pub(super) struct Norms {
    pub(super) input: Tensor,
    pub(super) post_attention: Tensor,
    pub(super) pre_ffn: Tensor,
    pub(super) post_ffn: Tensor,
}

impl Layer {
    /// The residual stream goes in and comes out; `inputs` are those of all layers.
    pub(super) fn forward(&self, pass: &mut Pass<'_, '_>, inputs: Option<&Tensor>) {
        let mut out = pass.ws.take(pass.ws.h.cols());
        self.attention.forward(pass, self.cache, self.norm(&self.norms.input), Sink::Store(&mut out));
        pass.backend.add(&out, self.norm(&self.norms.post_attention), &mut pass.ws.h);
        self.mlp.forward(pass, self.norm(&self.norms.pre_ffn), Sink::Store(&mut out));
        if let Some(mixture) = &self.mixture {
            mixture.forward(pass, self.eps, &mut out);
        }
        pass.backend.add(&out, self.norm(&self.norms.post_ffn), &mut pass.ws.h);
        pass.ws.put([out]);
        if let Some((gate, inputs)) = self.input.as_ref().zip(inputs) {
            gate.forward(pass, self.eps, inputs);
        }
        pass.backend.scale(self.scalar, &mut pass.ws.h);
    }

    fn norm<'a>(&self, weight: &'a Tensor) -> Pre<'a> {
        Pre::RmsNorm { weight, eps: self.eps }
    }
}
