use std::path::Path;

use super::config::{DraftConfig, Layout};
use crate::checkpoint::Checkpoint;
use crate::{Difference, ModelError, Target};

/// Compares a draft's config with the target it is to serve.
///
/// # Errors
/// [`ModelError::Mismatch`] with every difference.
pub(super) fn fits(
    path: &Path,
    config: &DraftConfig,
    checkpoint: &Checkpoint,
    target: &dyn Target,
) -> Result<(), ModelError> {
    let (spec, rows) = (target.spec(), target.embedding().rows());
    let mut differences = Differences(Vec::new());
    if config.body.hidden != spec.hidden && !has_own_width(config, checkpoint) {
        differences.add("hidden_size", config.body.hidden, spec.hidden);
    }
    if config.target_hidden.is_some_and(|hidden| hidden != spec.hidden) {
        differences.add("target_hidden_size", config.target_hidden.unwrap_or(0), spec.hidden);
    }
    // The valid ids may be fewer than the draft's config says, when the tokenizer is smaller than the table.
    if let Some(vocab) = config.body.vocab.filter(|vocab| !(spec.vocab..=rows).contains(vocab)) {
        differences.add("vocab_size", vocab, spec.vocab);
    }
    if config.body.softcap.is_some() && config.body.softcap != target.softcap() {
        let said = |cap: Option<f32>| cap.map_or_else(|| "none".into(), |cap| cap.to_string());
        differences.add("final_logit_softcapping", said(config.body.softcap), said(target.softcap()));
    }
    if let Some(layers) = config.target_layers.filter(|&layers| layers != spec.layers) {
        differences.add("num_target_layers", layers, spec.layers);
    }
    for tap in config.taps(spec.layers).into_iter().filter(|&tap| tap >= spec.layers) {
        differences.add(
            "target_layer_ids",
            format!("layer {tap}"),
            format!("layers 0 to {}", spec.layers - 1),
        );
    }
    if config.mask_id as usize >= rows {
        differences.add("mask_token_id", config.mask_id, format!("{rows} embedding rows"));
    }
    differences.end(path)
}

/// Whether a draft may be of another width than its target: only with tables of its own that are used.
fn has_own_width(config: &DraftConfig, checkpoint: &Checkpoint) -> bool {
    let tables = ["embed_tokens.weight", "lm_head.weight"];
    config.layout != Layout::Zlab
        && config.target_hidden.is_some()
        && tables.iter().all(|name| checkpoint.contains(name))
}

struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, field: &str, draft: impl ToString, target: impl ToString) {
        self.0.push(Difference { field: field.into(), draft: draft.to_string(), target: target.to_string() });
    }

    fn end(self, path: &Path) -> Result<(), ModelError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(ModelError::Mismatch { path: path.to_owned(), differences: self.0 })
    }
}

/// Parts of names that give away a variant, and what it is.
const VARIANTS: &[(&str, &str)] = &[
    ("aux_hidden_norms.", "a norm per tapped layer"),
    (".qkv_proj.", "a fused q, k, v projection"),
    (".gate_up_proj.", "a fused gate and up projection"),
    (".g_proj.", "a gate per attention head"),
    (".sinks", "attention sinks"),
    ("attention_sink_bias", "attention sinks"),
    ("attn_sinks", "attention sinks"),
    ("attn_conv_", "the dynamic convolution of DFlash2"),
    ("ffn_conv_", "the dynamic convolution of DFlash2"),
    ("selector_", "the candidate selector of DFlash2"),
    ("markov_w", "the sequential correction of DSpark"),
    ("conf_proj", "the confidence head of DSpark"),
    ("mask_embedding", "a mask embedding of the draft's own"),
    ("markov_head.", "the sequential correction of DSpark"),
    ("confidence_head.", "the confidence head of DSpark"),
    ("candidate_selector.", "the candidate selector of DFlash2"),
    ("attention_conv.", "the dynamic convolution of DFlash2"),
    ("mlp_conv.", "the dynamic convolution of DFlash2"),
];

/// Refuses tensors of known variants by name.
///
/// # Errors
/// [`ModelError::RefusedTensor`].
pub(super) fn refuse_variants(checkpoint: &Checkpoint, config: &DraftConfig) -> Result<(), ModelError> {
    for name in checkpoint.names() {
        if config.markov_rank.is_some() && name.starts_with("markov_head.") {
            continue;
        }
        if let Some((_, what)) = VARIANTS.iter().find(|(part, _)| name.contains(part)) {
            return Err(ModelError::RefusedTensor {
                path: checkpoint.path().to_owned(),
                tensor: name.into(),
                what,
            });
        }
    }
    Ok(())
}
