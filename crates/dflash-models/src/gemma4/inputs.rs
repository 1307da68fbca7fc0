use std::sync::Arc;

use dflash_tensor::{Activation, Pre, Tensor, Weight};

use super::load::scale_in_type;
use crate::ModelError;
use crate::loader::{Loader, NormRule, Wanted};
use crate::pass::{Pass, Sink};
use crate::tables::table_rows;

/// Inputs that every layer has of its own: by the token, and by its embedding.
pub(super) struct LayerInputs {
    /// `[ids, layers * width]`
    table: Arc<Weight>,
    /// Of the rows of the table.
    scale: f32,
    /// `[layers * width, hidden]`
    projection: Weight,
    /// Norm of every layer's projected part, `[1, width]`.
    norm: Tensor,
    eps: f32,
}

/// Of the sum of both parts, which have a mean square of about one each.
const SUM: f32 = std::f32::consts::FRAC_1_SQRT_2;

impl LayerInputs {
    /// Reads the inputs, `width` wide, of `layers` layers, for ids below `vocab`.
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        [vocab, hidden, layers, width]: [usize; 4],
        eps: f32,
    ) -> Result<Self, ModelError> {
        let module = "model.embed_tokens_per_layer";
        let rows = table_rows(loader.checkpoint(), module, vocab)?;
        let table = loader.table(module, rows, layers * width)?;
        let projection = Wanted::new("model.per_layer_model_projection", layers * width, hidden);
        let projection = loader.weight(&[projection])?;
        let mut gain = loader.floats("model.per_layer_projection_norm.weight", width)?;
        gain.iter_mut().for_each(|gain| *gain *= SUM);
        let norm = loader.tensor(width, &gain);
        let scale = scale_in_type(&table, width) * SUM;
        // The projection is multiplied by hidden^-0.5 before its norm, which only eps notices.
        Ok(Self { table, scale, projection, norm, eps: eps * hidden as f32 })
    }

    /// `[rows, layers * width]`, from the ids and the embeddings in the residual stream. The caller gives the
    /// tensor back.
    pub(super) fn forward(&self, pass: &mut Pass<'_, '_>) -> Tensor {
        let [projected] = pass.project(&self.projection, Pre::None);
        let [mut inputs, mut normed] = [0, 1].map(|_| pass.ws.take(projected.cols()));
        pass.backend.rms_norm(&projected, &self.norm, self.eps, &mut normed);
        pass.backend.embed(&self.table, pass.batch.ids(), self.scale, &mut inputs);
        pass.backend.add(&normed, Pre::None, &mut inputs);
        pass.ws.put([projected, normed]);
        inputs
    }
}

/// How a layer takes its own input in.
pub(super) struct InputGate {
    /// `[width, hidden]`
    gate: Weight,
    /// `[hidden, width]`
    projection: Weight,
    norm: Tensor,
    /// Where the layer's input begins in the inputs of all layers.
    col: usize,
}

impl InputGate {
    /// Reads the gate of layer `index`, whose tensors begin with `prefix` (without the dot).
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        [index, hidden, width]: [usize; 3],
    ) -> Result<Self, ModelError> {
        let gate = Wanted::new(format!("{prefix}.per_layer_input_gate"), width, hidden);
        let projection = Wanted::new(format!("{prefix}.per_layer_projection"), hidden, width);
        let norm = format!("{prefix}.post_per_layer_input_norm.weight");
        Ok(Self {
            gate: loader.weight(&[gate])?,
            projection: loader.weight(&[projection])?,
            norm: loader.gain(&norm, hidden, NormRule::Plain)?,
            col: index * width,
        })
    }

    /// Adds the layer's part of `inputs` to the residual stream, as far as that lets it in.
    pub(super) fn forward(&self, pass: &mut Pass<'_, '_>, eps: f32, inputs: &Tensor) {
        let [gate] = pass.project(&self.gate, Pre::None);
        let mut own = pass.ws.take(gate.cols());
        pass.backend.columns(inputs, self.col, &mut own);
        pass.backend.gate(Activation::GeluTanh, &gate, &mut own);
        let mut out = pass.ws.take(self.projection.rows());
        pass.output(&self.projection, &own, Sink::Store(&mut out));
        pass.backend.add(&out, Pre::RmsNorm { weight: &self.norm, eps }, &mut pass.ws.h);
        pass.ws.put([gate, own, out]);
    }
}
