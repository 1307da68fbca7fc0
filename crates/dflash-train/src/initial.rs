use std::collections::BTreeMap;

use dflash_models::{DenseLayer, Target};

use crate::normal::Normal;
use crate::{DraftShape, DraftWeights, Matrix, TrainError};

/// Deviation of random matrices, as models of this kind begin with.
const DEVIATION: f32 = 0.02;
/// What of the last tap the context begins as.
const FUSED: f32 = 0.1;
/// Width of a head where the target has none of its own.
const HEAD_DIM: usize = 64;

/// The weights that training begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Initial {
    /// All that the shape names.
    pub weights: DraftWeights,
    /// What is random that was to be the target's.
    pub notes: Vec<String>,
}

impl DraftShape {
    /// A draft of `layers` layers like the target's own, where these are of the kind that a draft has; all target ids,
    /// the usual taps, no Markov head.
    pub fn like(target: &dyn Target, layers: usize, block: usize, mask_id: u32) -> Self {
        let spec = target.spec();
        let own = target.dense_layer(spec.layers - 1);
        let sizes = |layer: &DenseLayer| (layer.heads, layer.kv_heads, layer.head_dim, layer.ffn);
        let heads = spec.hidden.div_ceil(HEAD_DIM);
        let (heads, kv_heads, head_dim, ffn) =
            own.as_ref().map_or((heads, heads, HEAD_DIM, 3 * spec.hidden), sizes);
        Self {
            hidden: spec.hidden,
            layers,
            ffn,
            heads,
            kv_heads,
            head_dim,
            rms_norm_eps: own.as_ref().map_or(1e-6, |layer| layer.rms_norm_eps),
            rope_theta: own.as_ref().map_or(10_000.0, |layer| layer.rope_theta.into()),
            context: spec.context,
            block,
            mask_id,
            taps: usual_taps(spec.layers, layers.max(5)),
            target_layers: spec.layers,
            target_vocab: spec.vocab,
            vocab: None,
            markov_rank: 0,
        }
    }
}

/// Evenly from the second layer to the third last (z-lab): `round(1 + i * (layers - 4) / (taps - 1))`, halves to even,
/// without repetition.
fn usual_taps(layers: usize, taps: usize) -> Vec<usize> {
    let span = layers.saturating_sub(4) as f64 / (taps - 1) as f64;
    let mut all: Vec<usize> = (0..taps)
        .map(|index| (1.0 + index as f64 * span).round_ties_even() as usize)
        .map(|layer| layer.min(layers - 1))
        .collect();
    all.dedup();
    all
}

/// A draft whose layers begin as `layers` of the target, one for each of its own: matrices and norms, queries and keys
/// normalised with a gain of 1 where the target does not normalise them. The context begins as a tenth of the last tap,
/// and the last norm is the target's. Without `layers`, and where one does not fit the shape, matrices are drawn from a
/// normal distribution by `seed`. A Markov head begins without effect.
///
/// # Errors
/// Another number of layers than the shape has, or one that the target does not have.
pub fn init_from_layers(
    target: &dyn Target,
    shape: &DraftShape,
    layers: &[usize],
    seed: u64,
) -> Result<Initial, TrainError> {
    let spec = target.spec();
    if !layers.is_empty() && layers.len() != shape.layers {
        let (given, wanted) = (layers.len(), shape.layers);
        return Err(TrainError::Refused(format!(
            "{given} layers of the target to begin with, but the draft has {wanted}; name one for each, or none"
        )));
    }
    if let Some(layer) = layers.iter().find(|&&layer| layer >= spec.layers) {
        return Err(TrainError::Refused(format!(
            "the target has no layer {layer} to begin with: its layers are 0 to {}",
            spec.layers - 1
        )));
    }
    let mut known = Known { hidden: shape.hidden, tensors: BTreeMap::new(), notes: Vec::new() };
    known.add("fc", fused(shape));
    known.add_some("norm", target.final_norm());
    for (index, &layer) in layers.iter().enumerate() {
        match target.dense_layer(layer) {
            Some(own) => known.add_layer(shape, index, layer, own),
            None => known.notes.push(format!(
                "layer {layer} of the target is of another kind; layer {index} of the draft begins at random"
            )),
        }
    }
    Ok(known.completed(shape, seed))
}

/// A part of the identity on the columns of the last tap.
fn fused(shape: &DraftShape) -> Vec<f32> {
    let (cols, first) = (shape.features(), shape.features() - shape.hidden);
    let mut values = vec![0.0; shape.hidden * cols];
    (0..shape.hidden).for_each(|row| values[row * cols + first + row] = FUSED);
    values
}

/// Tensors whose values are known.
struct Known {
    hidden: usize,
    tensors: BTreeMap<String, Vec<f32>>,
    notes: Vec<String>,
}

impl Known {
    fn add(&mut self, module: &str, values: Vec<f32>) {
        self.tensors.insert(format!("{module}.weight"), values);
    }

    fn add_some(&mut self, module: &str, values: Option<Vec<f32>>) {
        values.into_iter().for_each(|values| self.add(module, values));
    }

    /// Layer `index` of the draft from `own`, layer `layer` of the target.
    fn add_layer(&mut self, shape: &DraftShape, index: usize, layer: usize, own: DenseLayer) {
        let name = |module: &str| format!("layers.{index}.{module}");
        let mut other = |what: &str| {
            self.notes.push(format!(
                "{what} of layer {layer} of the target has another shape; that of layer {index} of the draft begins \
                 at random"
            ));
        };
        let attention = [own.heads, own.kv_heads, own.head_dim]
            == [shape.heads, shape.kv_heads, shape.head_dim]
            && own.input_norm.len() == self.hidden;
        let mlp = own.ffn == shape.ffn && own.post_norm.len() == self.hidden;
        (!attention).then(|| other("attention"));
        (!mlp).then(|| other("the MLP"));
        if attention {
            self.add(&name("input_layernorm"), own.input_norm);
            self.add(&name("self_attn.q_proj"), own.q);
            self.add(&name("self_attn.k_proj"), own.k);
            self.add(&name("self_attn.v_proj"), own.v);
            self.add(&name("self_attn.o_proj"), own.o);
            self.add_some(&name("self_attn.q_norm"), own.q_norm);
            self.add_some(&name("self_attn.k_norm"), own.k_norm);
        }
        if mlp {
            self.add(&name("post_attention_layernorm"), own.post_norm);
            self.add(&name("mlp.gate_proj"), own.gate);
            self.add(&name("mlp.up_proj"), own.up);
            self.add(&name("mlp.down_proj"), own.down);
        }
    }

    /// With all other tensors: gains of 1, a Markov head that adds nothing, random matrices.
    fn completed(mut self, shape: &DraftShape, seed: u64) -> Initial {
        let mut normal = Normal::new(seed);
        let mut weights = DraftWeights::new();
        for (name, shape) in shape.tensors() {
            let len = shape.iter().product();
            let values = match self.tensors.remove(&name) {
                Some(values) => values,
                None if shape.len() == 1 => vec![1.0; len],
                None if name == "markov_head.markov_w2.weight" => vec![0.0; len],
                None => (0..len).map(|_| DEVIATION * normal.draw()).collect(),
            };
            weights.insert(name, Matrix { shape, values });
        }
        Initial { weights, notes: self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_those_of_the_published_drafts() {
        assert_eq!(usual_taps(36, 5), [1, 9, 17, 25, 33]);
        assert_eq!(usual_taps(40, 5), [1, 10, 19, 28, 37]);
        assert_eq!(usual_taps(64, 5), [1, 16, 31, 46, 61]);
        assert_eq!(usual_taps(30, 5), [1, 8, 14, 20, 27]);
        assert_eq!((usual_taps(2, 5), usual_taps(1, 5)), (vec![1], vec![0]));
    }
}
