use super::body::{Body, Causality, READ};
use super::config::{CHANGES, DraftConfig, Layout, MARKOV, MAX_BLOCK};
use crate::ModelError;
use crate::json::{Keys, MAX_SIZE};
use crate::refuse::{HARMLESS, note_unread, refuse};

/// Keys at the top of a speculators config.
const TOP: &[&str] = &[
    "aux_hidden_state_layer_ids",
    "block_size",
    "draft_vocab_size",
    "is_causal",
    "mask_token_id",
    "max_anchors",
    "sample_from_anchor",
    "sliding_window_non_causal",
    "speculators_config",
    "speculators_model_type",
    "speculators_version",
    "target_hidden_size",
    "tie_word_embeddings",
    "transformer_layer_config",
];

/// The layout of the `speculators` toolkit: the stack in `transformer_layer_config`, taps counted from one.
pub(super) fn read(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<DraftConfig, ModelError> {
    let section = "transformer_layer_config";
    let body = config.object(section)?.ok_or_else(|| config.missing(section))?;
    notes.extend(note_unread(config, &[TOP, HARMLESS], &[CHANGES]));
    notes.extend(note_unread(&body, &[READ, HARMLESS], &[CHANGES]));
    refuse_algorithm(config)?;
    [config, &body].into_iter().try_for_each(|keys| refuse(keys, MARKOV))?;
    let non_causal = config.flag("sliding_window_non_causal")?;
    let causality = Causality { all: config.flag("is_causal")?, sliding: non_causal.map(|flag| !flag) };
    let mask = config.integer("mask_token_id", MAX_SIZE)?;
    Ok(DraftConfig {
        layout: Layout::Speculators,
        block: config.integer("block_size", MAX_BLOCK)?.ok_or_else(|| config.missing("block_size"))?,
        mask_id: mask.ok_or_else(|| config.missing("mask_token_id"))? as u32,
        taps: taps(config)?,
        target_layers: None,
        target_hidden: config.size("target_hidden_size")?,
        draft_vocab: config.size("draft_vocab_size")?,
        markov_rank: None,
        body: Body::read(&body, causality)?,
    })
}

fn refuse_algorithm(config: &Keys<'_>) -> Result<(), ModelError> {
    let Some(keys) = config.object("speculators_config")? else { return Ok(()) };
    match keys.text("algorithm")? {
        None | Some("dflash") => Ok(()),
        Some(_) => Err(keys.refused("algorithm", "dflash is")),
    }
}

/// Layer ids of this toolkit count the embedding as layer 0.
fn taps(config: &Keys<'_>) -> Result<Option<Vec<usize>>, ModelError> {
    let key = "aux_hidden_state_layer_ids";
    let Some(ids) = config.ids(key)? else { return Ok(None) };
    let taps = ids.iter().map(|&id| (id as usize).checked_sub(1)).collect::<Option<Vec<_>>>();
    let embedding = || config.refused(key, "0 is the embedding, which is no decoder layer");
    taps.map(Some).ok_or_else(embedding)
}

/// Outputs of an early, a middle and a late layer, when the config lists none.
pub(super) fn default_taps(target_layers: usize) -> Vec<usize> {
    [2, target_layers / 2, target_layers.saturating_sub(3)].map(|id| id.saturating_sub(1)).to_vec()
}
