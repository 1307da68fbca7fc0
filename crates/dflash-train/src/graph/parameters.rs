use candle_core::{Device, Tensor, Var};

use crate::{DraftShape, DraftWeights, Matrix, TrainError};

/// Of a Markov head, to that of all else.
const MARKOV_RATE: f64 = 4.0;

/// Tensors of the draft that are trained as one: those below each other in `var` are used in one product.
pub struct Parameter {
    /// Names in the z-lab layout, with their shapes.
    parts: Vec<(String, Vec<usize>)>,
    /// What is trained.
    pub var: Var,
}

impl Parameter {
    /// Whether weight decay applies: to matrices.
    pub fn decays(&self) -> bool {
        self.var.rank() > 1
    }

    /// What the learning rate is multiplied by. A row of a Markov head's tables learns only where its id stands: seldom.
    pub fn rate(&self) -> f64 {
        if self.name().starts_with("markov_head.") { MARKOV_RATE } else { 1.0 }
    }

    /// The first of its tensors.
    pub fn name(&self) -> &str {
        &self.parts[0].0
    }

    /// Splits what has the shape of the parameter into its tensors.
    pub fn split(&self, values: &Tensor, out: &mut DraftWeights) -> Result<(), TrainError> {
        let values = values.flatten_all()?.to_vec1::<f32>()?;
        let mut rest = values.as_slice();
        for (name, shape) in &self.parts {
            let (own, others) = rest.split_at(shape.iter().product());
            out.insert(name.clone(), Matrix { shape: shape.clone(), values: own.to_vec() });
            rest = others;
        }
        Ok(())
    }

    /// Puts tensors together: the other way round.
    pub fn join(&self, weights: &DraftWeights, device: &Device) -> Result<Tensor, TrainError> {
        join(&self.parts, weights, device)
    }
}

fn join(
    parts: &[(String, Vec<usize>)],
    weights: &DraftWeights,
    device: &Device,
) -> Result<Tensor, TrainError> {
    let (mut shape, mut values) = (parts[0].1.clone(), Vec::new());
    shape[0] = parts.iter().map(|(_, shape)| shape[0]).sum();
    for (name, wanted) in parts {
        let matrix = weights.get(name).ok_or_else(|| {
            TrainError::Refused(format!("the draft to go on from has no {name}; begin anew"))
        })?;
        if matrix.shape != *wanted {
            return Err(TrainError::Refused(format!(
                "{name} of the draft to go on from has the shape {:?}, not {wanted:?}; give its own sizes, or begin \
                 anew",
                matrix.shape
            )));
        }
        values.extend_from_slice(&matrix.values);
    }
    Ok(Tensor::from_vec(values, shape, device)?)
}

/// Of a decoder layer.
pub struct LayerParameters {
    pub input_norm: Var,
    /// `[heads * head_dim, hidden]`.
    pub queries: Var,
    pub query_norm: Var,
    /// Keys, then values: `[2 * kv_heads * head_dim, hidden]`.
    pub kv: Var,
    pub key_norm: Var,
    /// `[hidden, heads * head_dim]`.
    pub output: Var,
    pub post_norm: Var,
    /// Gate, then up: `[2 * ffn, hidden]`.
    pub gate_up: Var,
    /// `[hidden, ffn]`.
    pub down: Var,
}

/// Of a Markov head.
pub struct MarkovParameters {
    /// `[target ids, rank]`.
    pub w1: Var,
    /// `[ids of the draft, rank]`.
    pub w2: Var,
}

/// All that is trained.
pub struct Parameters {
    /// `[hidden, taps * hidden]`.
    pub fuse: Var,
    pub context_norm: Var,
    pub layers: Vec<LayerParameters>,
    pub norm: Var,
    pub markov: Option<MarkovParameters>,
    /// The same variables, in the order they were made.
    pub all: Vec<Parameter>,
}

impl Parameters {
    /// Those of a draft of this shape, with these values.
    ///
    /// # Errors
    /// Weights that lack a tensor, or have one of another shape.
    pub fn new(shape: &DraftShape, weights: &DraftWeights, device: &Device) -> Result<Self, TrainError> {
        let mut maker = Maker { tensors: shape.tensors(), weights, device, all: Vec::new() };
        Ok(Self {
            fuse: maker.make(&["fc.weight"])?,
            context_norm: maker.make(&["hidden_norm.weight"])?,
            layers: (0..shape.layers).map(|layer| maker.layer(layer)).collect::<Result<_, _>>()?,
            norm: maker.make(&["norm.weight"])?,
            markov: (shape.markov_rank > 0).then(|| maker.markov()).transpose()?,
            all: maker.all,
        })
    }

    /// Their values.
    ///
    /// # Errors
    /// The device's.
    pub fn weights(&self) -> Result<DraftWeights, TrainError> {
        let mut weights = DraftWeights::new();
        self.all.iter().try_for_each(|parameter| parameter.split(&parameter.var, &mut weights))?;
        Ok(weights)
    }
}

struct Maker<'a> {
    tensors: Vec<(String, Vec<usize>)>,
    weights: &'a DraftWeights,
    device: &'a Device,
    all: Vec<Parameter>,
}

impl Maker<'_> {
    fn make<N: AsRef<str>>(&mut self, names: &[N]) -> Result<Var, TrainError> {
        let named = |name: &N| self.tensors.iter().find(|(other, _)| other == name.as_ref()).cloned();
        let parts: Vec<_> = names.iter().map(|name| named(name).expect("a tensor of the shape")).collect();
        let var = Var::from_tensor(&join(&parts, self.weights, self.device)?)?;
        self.all.push(Parameter { parts, var: var.clone() });
        Ok(var)
    }

    fn layer(&mut self, layer: usize) -> Result<LayerParameters, TrainError> {
        let mut make = |names: &[&str]| {
            let names: Vec<String> =
                names.iter().map(|name| format!("layers.{layer}.{name}.weight")).collect();
            self.make(&names)
        };
        Ok(LayerParameters {
            input_norm: make(&["input_layernorm"])?,
            queries: make(&["self_attn.q_proj"])?,
            query_norm: make(&["self_attn.q_norm"])?,
            kv: make(&["self_attn.k_proj", "self_attn.v_proj"])?,
            key_norm: make(&["self_attn.k_norm"])?,
            output: make(&["self_attn.o_proj"])?,
            post_norm: make(&["post_attention_layernorm"])?,
            gate_up: make(&["mlp.gate_proj", "mlp.up_proj"])?,
            down: make(&["mlp.down_proj"])?,
        })
    }

    fn markov(&mut self) -> Result<MarkovParameters, TrainError> {
        Ok(MarkovParameters {
            w1: self.make(&["markov_head.markov_w1.weight"])?,
            w2: self.make(&["markov_head.markov_w2.weight"])?,
        })
    }
}
