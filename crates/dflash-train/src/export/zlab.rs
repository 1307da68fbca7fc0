use std::path::Path;

use dflash_models::DraftQuant;
use serde_json::{Value, json};

use super::stored::Stored;
use super::{ZlabFormat, json, stored};
use crate::{DraftShape, DraftWeights, Matrix, TrainError};

/// Inputs that share a scale and a bias.
pub(super) const GROUP: u16 = 64;

impl ZlabFormat {
    fn quant(self) -> Option<DraftQuant> {
        match self {
            Self::F32 | Self::Bf16 => None,
            Self::Mlx8 => Some(DraftQuant { bits: 8, group: GROUP }),
            Self::Mlx4 => Some(DraftQuant { bits: 4, group: GROUP }),
        }
    }
}

/// Writes both files.
pub(super) fn write(
    dir: &Path,
    shape: &DraftShape,
    weights: &DraftWeights,
    format: ZlabFormat,
) -> Result<(), TrainError> {
    refuse_narrow(shape, format)?;
    json::write(dir, config(shape, format))?;
    let mut tensors =
        weights.iter().flat_map(|(name, matrix)| stored(name, matrix, format)).collect::<Vec<_>>();
    tensors.extend(shape.vocab.as_deref().map(Stored::offsets));
    stored::write(dir, &tensors, if format.quant().is_some() { "mlx" } else { "pt" })
}

/// A plan that fits no matrix at all is no plan.
fn refuse_narrow(shape: &DraftShape, format: ZlabFormat) -> Result<(), TrainError> {
    let fits = shape.tensors().iter().any(|(_, shape)| is_quantised(shape));
    if format.quant().is_some() && !fits {
        let what = format!("no matrix of this draft is a multiple of {GROUP} wide; export it as bf16");
        return Err(TrainError::Refused(what));
    }
    Ok(())
}

/// Whether a tensor is a matrix of whole groups.
fn is_quantised(shape: &[usize]) -> bool {
    matches!(shape, [_, cols] if cols.is_multiple_of(GROUP.into()))
}

fn stored(name: &str, matrix: &Matrix, format: ZlabFormat) -> Vec<Stored> {
    match (format, format.quant()) {
        (ZlabFormat::F32, _) => vec![Stored::f32(name, matrix)],
        (_, Some(quant)) if is_quantised(&matrix.shape) => {
            Stored::affine(name.strip_suffix(".weight").unwrap_or(name), matrix, quant).into()
        }
        _ => vec![Stored::bf16(name, matrix)],
    }
}

/// The draft's own keys stand where newer readers look, and block and layers where older ones do as well.
fn config(shape: &DraftShape, format: ZlabFormat) -> Value {
    let mut config = json::decoder(shape);
    config["architectures"] = json!(["DFlashDraftModel"]);
    config["tie_word_embeddings"] = true.into();
    config["dtype"] = if format == ZlabFormat::F32 { "float32" } else { "bfloat16" }.into();
    config["block_size"] = shape.block.into();
    config["num_target_layers"] = shape.target_layers.into();
    config["dflash_config"] = json!({
        "block_size": shape.block,
        "mask_token_id": shape.mask_id,
        "num_target_layers": shape.target_layers,
        "target_layer_ids": shape.taps,
    });
    if shape.vocab.is_some() {
        config["draft_vocab_size"] = shape.vocab_len().into();
    }
    if let Some(DraftQuant { bits, group }) = format.quant() {
        let plan = json!({"group_size": group, "bits": bits});
        config["quantization"] = plan.clone();
        config["quantization_config"] = plan;
    }
    json::add_markov(&mut config, shape);
    config
}
