use std::path::Path;

use dflash_models::Target;
use serde_json::{Value, json};

use super::check::check_target;
use super::stored::Stored;
use super::{SpeculatorsFormat, json, stored};
use crate::{DraftShape, DraftWeights, TargetTables, TrainError};

/// The release of the toolkit whose layout this is.
const VERSION: &str = "0.9.0";

/// Writes both files.
pub(super) fn write(
    dir: &Path,
    shape: &DraftShape,
    weights: &DraftWeights,
    format: SpeculatorsFormat,
    target: &dyn Target,
) -> Result<(), TrainError> {
    check_target(shape, target)?;
    let tensors = tensors(shape, weights, format, target)?;
    json::write(dir, config(shape, format, target))?;
    stored::write(dir, &tensors, "pt")
}

fn tensors(
    shape: &DraftShape,
    weights: &DraftWeights,
    format: SpeculatorsFormat,
    target: &dyn Target,
) -> Result<Vec<Stored>, TrainError> {
    let store = match format {
        SpeculatorsFormat::F32 => Stored::f32,
        SpeculatorsFormat::Bf16 => Stored::bf16,
    };
    // The mask may stand for a row beyond the valid ids.
    let count = shape.target_vocab.max(shape.mask_id as usize + 1);
    if count > target.embedding().rows() {
        let (mask, rows) = (shape.mask_id, target.embedding().rows());
        return Err(TrainError::Refused(format!("mask token {mask} has no row in an embedding of {rows}")));
    }
    let head_ids = shape.vocab.clone().unwrap_or_else(|| (0..shape.target_vocab as u32).collect());
    let tables = TargetTables::read(target, &(0..count as u32).collect::<Vec<_>>(), &head_ids);
    let mut tensors = weights.iter().map(|(name, matrix)| store(name, matrix)).collect::<Vec<_>>();
    tensors.push(store("embed_tokens.weight", &tables.embedding));
    tensors.push(store("lm_head.weight", &tables.head));
    if let Some(ids) = &shape.vocab {
        tensors.push(Stored::offsets(ids));
        tensors.push(Stored::reached(ids, shape));
    }
    Ok(tensors)
}

fn config(shape: &DraftShape, format: SpeculatorsFormat, target: &dyn Target) -> Value {
    let mut decoder = json::decoder(shape);
    decoder["architectures"] = json!(["Qwen3ForCausalLM"]);
    if let Some(cap) = target.softcap() {
        decoder["final_logit_softcapping"] = cap.into();
    }
    let dtype = match format {
        SpeculatorsFormat::F32 => "float32",
        SpeculatorsFormat::Bf16 => "bfloat16",
    };
    let (algorithm, architecture) = match shape.markov_rank {
        0 => ("dflash", "DFlashSpeculator"),
        _ => ("dspark", "DSparkSpeculator"),
    };
    let mut config = json!({
        "architectures": [architecture],
        "speculators_model_type": algorithm,
        "speculators_version": VERSION,
        "dtype": dtype,
        "tie_word_embeddings": false,
        "block_size": shape.block,
        "draft_vocab_size": shape.vocab_len(),
        "target_hidden_size": shape.hidden,
        // Counted from the embedding.
        "aux_hidden_state_layer_ids": shape.taps.iter().map(|tap| tap + 1).collect::<Vec<_>>(),
        "mask_token_id": shape.mask_id,
        "transformer_layer_config": decoder,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": shape.block - 1}],
            "verifier": {"name_or_path": null, "architectures": []},
        },
    });
    json::add_markov(&mut config, shape);
    config
}
