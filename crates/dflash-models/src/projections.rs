use dflash_tensor::{Pre, Tensor, Weight};

use crate::pass::Pass;

/// The products of a row before attention, packed by what needs them together.
pub(crate) enum Projections {
    /// Queries, keys, values.
    Fused(Weight),
    /// Queries, gates, keys, values.
    Gated(Weight),
    /// q is packed apart from k and v, because some rows need only these.
    Split { q: Weight, kv: Weight },
    /// Queries, and keys that are the values too.
    KeysAsValues(Weight),
    /// Keys and values are another layer's.
    Queries(Weight),
}

/// What the projections give.
pub(crate) struct Projected {
    pub(crate) q: Tensor,
    /// Of the outputs.
    pub(crate) gate: Option<Tensor>,
    pub(crate) k: Option<Tensor>,
    /// `None` where keys are the values too.
    pub(crate) v: Option<Tensor>,
}

impl Projections {
    /// The products of `pre` of the residual stream, in tensors that the caller gives back.
    pub(crate) fn run(&self, pass: &mut Pass<'_, '_>, pre: Pre<'_>) -> Projected {
        match self {
            Self::Fused(qkv) => {
                let [q, k, v] = pass.project(qkv, pre);
                Projected { q, gate: None, k: Some(k), v: Some(v) }
            }
            Self::Gated(weight) => {
                let [q, gate, k, v] = pass.project(weight, pre);
                Projected { q, gate: Some(gate), k: Some(k), v: Some(v) }
            }
            Self::Split { q, kv } => {
                let [q] = pass.project(q, pre);
                let [k, v] = pass.project(kv, pre);
                Projected { q, gate: None, k: Some(k), v: Some(v) }
            }
            Self::KeysAsValues(weight) => {
                let [q, k] = pass.project(weight, pre);
                Projected { q, gate: None, k: Some(k), v: None }
            }
            Self::Queries(weight) => {
                let [q] = pass.project(weight, pre);
                Projected { q, gate: None, k: None, v: None }
            }
        }
    }
}
