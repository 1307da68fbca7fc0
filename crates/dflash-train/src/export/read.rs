use std::fs;
use std::path::Path;

use dflash_models::Element;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

use super::check::{check, check_shape};
use super::json::CONFIG;
use super::staged::WEIGHTS;
use crate::{DraftShape, DraftWeights, Matrix, TrainError};

/// Reads a draft in z-lab layout, its matrices f32, f16, bf16 or MLX affine with 2, 4 or 8 bits; the values come as
/// f32. What the shape cannot say, such as windows, scaled rotation or biases, is refused.
///
/// # Errors
/// [`TrainError::Bad`] naming the file and what is wrong with it, [`TrainError::Io`].
pub fn read_zlab(dir: &Path) -> Result<(DraftShape, DraftWeights), TrainError> {
    let path = dir.join(CONFIG);
    let config = fs::read(&path).map_err(TrainError::io(&path))?;
    let config =
        serde_json::from_slice(&config).map_err(|error| TrainError::bad(&path, error.to_string()))?;
    let config = Config(&config);
    let mut shape = config.shape().map_err(|what| TrainError::bad(&path, what))?;
    let path = dir.join(WEIGHTS);
    let bytes = fs::read(&path).map_err(TrainError::io(&path))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| TrainError::bad(&path, error.to_string()))?;
    let tensors = Tensors { file, bits: config.bits() };
    let weights = tensors.read(&mut shape).map_err(|what| TrainError::bad(&path, what))?;
    check(&shape, &weights).map_err(|error| TrainError::bad(dir, error.to_string()))?;
    Ok((shape, weights))
}

/// Settings that change the mathematics, with the values that a [`DraftShape`] stands for beside `null` and `false`.
const PLAIN: &[(&str, &[&str])] = &[
    ("hidden_act", &["silu", "swish"]),
    ("attention_bias", &[]),
    ("rope_scaling", &[]),
    ("is_causal", &[]),
    ("causal", &[]),
    ("use_swa", &[]),
    ("sample_from_anchor", &[]),
    ("enable_confidence_head", &[]),
    ("markov_head_type", &["vanilla"]),
    ("projector_type", &[]),
    ("attention_sink_bias", &[]),
    ("final_logit_softcapping", &[]),
    ("attention_value_scale", &["1"]),
    ("logit_scale", &["1"]),
    ("output_multiplier", &["1"]),
    ("input_embedding_scale", &["1"]),
    ("partial_rotary_factor", &["1"]),
];

/// A config in either schema: the draft's own keys stand at the top or in `dflash_config`.
struct Config<'a>(&'a Value);

impl Config<'_> {
    fn shape(&self) -> Result<DraftShape, String> {
        self.refuse_others()?;
        let optional = |key| self.find(key).map(|_| self.size(key)).transpose();
        let rope_theta = self.find("rope_theta").or(self.0["rope_parameters"].get("rope_theta"));
        let layers = self.size("num_hidden_layers")?;
        Ok(DraftShape {
            hidden: self.size("hidden_size")?,
            layers,
            ffn: self.size("intermediate_size")?,
            heads: self.size("num_attention_heads")?,
            kv_heads: self.size("num_key_value_heads")?,
            head_dim: self.size("head_dim")?,
            rms_norm_eps: self.number(self.find("rms_norm_eps"), "rms_norm_eps")? as f32,
            rope_theta: self.number(rope_theta, "rope_theta")?,
            context: self.size("max_position_embeddings")?,
            block: self.size("block_size")?,
            mask_id: u32::try_from(self.size("mask_token_id")?).map_err(|_| "mask_token_id is no id")?,
            taps: self.taps()?,
            target_layers: self.size("num_target_layers")?,
            target_vocab: self.size("vocab_size")?,
            vocab: None,
            markov_rank: optional("markov_rank")?.unwrap_or(0),
        })
    }

    fn refuse_others(&self) -> Result<(), String> {
        if self.find("speculators_model_type").is_some() {
            return Err("it is in speculators layout; a draft in z-lab layout is read".into());
        }
        let architectures = self.0["architectures"].as_array().map_or(&[][..], Vec::as_slice);
        if !architectures.is_empty() && !architectures.iter().any(|name| name == "DFlashDraftModel") {
            return Err(format!("architectures {} is not DFlashDraftModel", self.0["architectures"]));
        }
        for (key, plain) in PLAIN {
            if let Some(value) = self.find(key).filter(|value| !is_plain(value, plain)) {
                return Err(format!("{key} {value} is not what drafts are trained with here"));
            }
        }
        let types = self.0["layer_types"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(kind) = types.iter().find(|&kind| kind != "full_attention") {
            return Err(format!("layer type {kind} is not trained here; full_attention is"));
        }
        match &self.0["rope_parameters"]["rope_type"] {
            Value::Null => Ok(()),
            kind if kind == "default" => Ok(()),
            kind => Err(format!("rope_type {kind} is not trained here; default is")),
        }
    }

    fn find(&self, key: &str) -> Option<&Value> {
        let inner = || self.0["dflash_config"].get(key);
        self.0.get(key).filter(|value| !value.is_null()).or_else(inner).filter(|value| !value.is_null())
    }

    fn size(&self, key: &str) -> Result<usize, String> {
        let value = self.find(key).ok_or_else(|| format!("it has no {key}"))?;
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| format!("{key} {value} is no size"))
    }

    fn number(&self, value: Option<&Value>, key: &str) -> Result<f64, String> {
        let value = value.ok_or_else(|| format!("it has no {key}"))?;
        value.as_f64().ok_or_else(|| format!("{key} {value} is no number"))
    }

    fn taps(&self) -> Result<Vec<usize>, String> {
        let key = "target_layer_ids";
        let value = self.find(key).ok_or_else(|| format!("it has no {key}"))?;
        let ids = value.as_array().map(|ids| ids.iter().map(|id| Some(id.as_u64()? as usize)).collect());
        ids.flatten().ok_or_else(|| format!("{key} {value} are no layers"))
    }

    /// Bits of an MLX element.
    fn bits(&self) -> Option<usize> {
        ["quantization", "quantization_config"]
            .iter()
            .find_map(|key| Some(self.0[*key]["bits"].as_u64()? as usize))
    }
}

fn is_plain(value: &Value, plain: &[&str]) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::String(text) => plain.contains(&text.as_str()),
        Value::Number(number) => plain.iter().any(|plain| plain.parse().ok() == number.as_f64()),
        _ => false,
    }
}

/// The tensors of a file.
struct Tensors<'a> {
    file: SafeTensors<'a>,
    bits: Option<usize>,
}

impl Tensors<'_> {
    /// All tensors of the shape, and its vocabulary.
    fn read(&self, shape: &mut DraftShape) -> Result<DraftWeights, String> {
        shape.vocab = self.vocab()?;
        check_shape(shape)?;
        let wanted = shape.tensors();
        let weights = wanted.into_iter().map(|(name, shape)| Ok((name.clone(), self.matrix(&name, shape)?)));
        let weights = weights.collect::<Result<DraftWeights, String>>()?;
        match self.file.names().into_iter().find(|name| !self.is_known(name, &weights)) {
            Some(name) => Err(format!("tensor {name} is none of a draft that is trained here")),
            None => Ok(weights),
        }
    }

    fn is_known(&self, name: &str, weights: &DraftWeights) -> bool {
        let of_module = |tail| {
            name.strip_suffix(tail).is_some_and(|module| weights.contains_key(&format!("{module}.weight")))
        };
        name == "d2t"
            || name == "t2d"
            || weights.contains_key(name)
            || of_module(".scales")
            || of_module(".biases")
    }

    fn take(&self, name: &str) -> Result<TensorView<'_>, String> {
        self.file.tensor(name).map_err(|_| format!("tensor {name} is missing"))
    }

    fn matrix(&self, name: &str, shape: Vec<usize>) -> Result<Matrix, String> {
        let view = self.take(name)?;
        if view.dtype() == Dtype::U32 {
            return self.affine(name, &view, shape);
        }
        if view.shape() != shape {
            return Err(format!("tensor {name} is {:?} and should be {shape:?}", view.shape()));
        }
        Ok(Matrix { shape, values: floats(name, &view)? })
    }

    /// `scale * element + bias` of every group.
    fn affine(&self, name: &str, words: &TensorView<'_>, shape: Vec<usize>) -> Result<Matrix, String> {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let part = |tail: &str| {
            let name = format!("{module}.{tail}");
            let view = self.take(&name)?;
            floats(&name, &view)
        };
        let (scales, biases) = (part("scales")?, part("biases")?);
        let bits = self.bits.filter(|bits| [2, 4, 8].contains(bits));
        let bits = bits.ok_or("the config says no 2, 4 or 8 bits of quantisation")?;
        let count = shape.iter().product::<usize>();
        let group = count.checked_div(scales.len()).filter(|&group| group * scales.len() == count);
        let group = group.filter(|_| words.data().len() * 8 == count * bits && biases.len() == scales.len());
        let group = group.ok_or_else(|| format!("tensor {name} does not hold {shape:?} in {bits} bits"))?;
        let element = |i: usize| {
            let (byte, shift) = (words.data()[i * bits / 8], i * bits % 8);
            f32::from(byte >> shift & (u8::MAX >> (8 - bits)))
        };
        let values = (0..count).map(|i| scales[i / group] * element(i) + biases[i / group]).collect();
        Ok(Matrix { shape, values })
    }

    /// The target ids of a reduced vocabulary.
    fn vocab(&self) -> Result<Option<Vec<u32>>, String> {
        let Ok(view) = self.file.tensor("d2t") else { return Ok(None) };
        if view.dtype() != Dtype::I64 {
            return Err(format!("tensor d2t is {:?} and should be I64", view.dtype()));
        }
        let offsets =
            view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")));
        let ids =
            offsets.enumerate().map(|(row, offset)| u32::try_from(offset.checked_add(row as i64)?).ok());
        ids.collect::<Option<Vec<_>>>().map(Some).ok_or_else(|| "tensor d2t holds what is no id".into())
    }
}

fn floats(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let element = Element::of_safetensors(&view.dtype().to_string());
    let values = element.and_then(|element| element.floats(view.data()));
    values.ok_or_else(|| format!("tensor {name} is {:?} and should be F32, F16 or BF16", view.dtype()))
}
