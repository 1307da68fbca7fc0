use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::ops::{Attention, Precision, linear, rms_norm, rotate, swiglu};
use super::parameters::{LayerParameters, Parameters};
use super::plan::{Plan, Queries};
use crate::DraftShape;

/// The draft's pass over a batch.
pub struct Forward<'a> {
    pub shape: &'a DraftShape,
    pub parameters: &'a Parameters,
    /// The target's, `[target ids, hidden]`.
    pub embedding: &'a Tensor,
    pub device: &'a Device,
    pub precision: Precision,
}

impl Forward<'_> {
    /// Rows after the draft's last norm, `[wanted rows, hidden]`.
    pub fn run(&self, plan: &Plan) -> Result<Tensor> {
        let Parameters { fuse, context_norm, layers, norm, .. } = self.parameters;
        let context = self.linear(&plan.features, fuse)?;
        let context = rms_norm(&context, context_norm, self.shape.rms_norm_eps)?;
        let mut h = self.embedding.index_select(&self.index(&plan.ids)?, 0)?;
        for (index, layer) in layers.iter().enumerate() {
            h = self.layer(layer, plan, Place { index, last: index + 1 == layers.len() }, &context, &h)?;
        }
        rms_norm(&h, norm, self.shape.rms_norm_eps)
    }

    /// The first layer takes one row for each id, as rows of the same id differ in position only; the last one gives
    /// the wanted rows alone.
    fn layer(
        &self,
        layer: &LayerParameters,
        plan: &Plan,
        place: Place,
        context: &Tensor,
        h: &Tensor,
    ) -> Result<Tensor> {
        let rows = Rows::new(self, plan, place)?;
        let x = rms_norm(h, &layer.input_norm, self.shape.rms_norm_eps)?;
        let kv = self.linear(&Tensor::cat(&[context, &x], 0)?, &layer.kv)?;
        let kv = select(&kv, rows.keys.as_ref())?;
        let queries = if place.index == 0 {
            select(&self.linear(&x, &layer.queries)?, rows.queries.as_ref())?
        } else {
            self.linear(&select(&x, rows.queries.as_ref())?, &layer.queries)?
        };
        let h = select(h, rows.queries.as_ref())?;
        let attended =
            self.attend(layer, plan, &queries, &kv, if place.last { &plan.last } else { &plan.inner })?;
        let h = (h + self.linear(&attended, &layer.output)?)?;
        let y = rms_norm(&h, &layer.post_norm, self.shape.rms_norm_eps)?;
        let inner = swiglu(&self.linear(&y, &layer.gate_up)?)?;
        h + self.linear(&inner, &layer.down)?
    }

    fn attend(
        &self,
        layer: &LayerParameters,
        plan: &Plan,
        queries: &Tensor,
        kv: &Tensor,
        at: &Queries,
    ) -> Result<Tensor> {
        let DraftShape { heads, kv_heads, head_dim, rms_norm_eps: eps, .. } = *self.shape;
        let queries = rotate(queries, &layer.query_norm, heads, eps, &plan.rotation, &at.positions)?;
        let kv = rotate(kv, &layer.key_norm, kv_heads, eps, &plan.rotation, &plan.key_positions)?;
        Attention { heads, kv_heads, head_dim, sequences: Arc::clone(&at.seen) }.apply(&queries, &kv)
    }

    fn linear(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        linear(x, weight, self.precision)
    }

    fn index(&self, rows: &[u32]) -> Result<Tensor> {
        Tensor::new(rows, self.device)
    }
}

/// Which layer it is.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    last: bool,
}

/// Which rows of its input a layer goes on with; `None` for all of them.
struct Rows {
    queries: Option<Tensor>,
    keys: Option<Tensor>,
}

impl Rows {
    fn new(forward: &Forward<'_>, plan: &Plan, place: Place) -> Result<Self> {
        let Plan { id_rows, wanted, .. } = plan;
        let queries = match (place.index, place.last) {
            (0, true) => Some(wanted.iter().map(|&row| id_rows[row as usize]).collect()),
            (0, false) => Some(id_rows.clone()),
            (_, true) => Some(wanted.clone()),
            (_, false) => None,
        };
        let context = plan.features.dim(0)? as u32;
        let keys = (place.index == 0)
            .then(|| (0..context).chain(id_rows.iter().map(|row| context + row)).collect::<Vec<u32>>());
        let index = |rows: Option<Vec<u32>>| rows.map(|rows| forward.index(&rows)).transpose();
        Ok(Self { queries: index(queries)?, keys: index(keys)? })
    }
}

fn select(x: &Tensor, rows: Option<&Tensor>) -> Result<Tensor> {
    rows.map_or_else(|| Ok(x.clone()), |rows| x.index_select(rows, 0))
}
