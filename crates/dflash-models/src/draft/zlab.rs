use super::body::{Body, Causality, READ};
use super::config::{CHANGES, DraftConfig, Layout, MAX_BLOCK, MAX_RANK, markov_rank};
use crate::ModelError;
use crate::json::{Keys, MAX_SIZE, shown};
use crate::refuse::{HARMLESS, note_unread};

/// Keys that stand at the top or in `dflash_config`, old and new schema.
const EITHER: &[&str] = &[
    "block_size",
    "num_target_layers",
    "mask_token_id",
    "target_layer_ids",
    "is_causal",
    "draft_vocab_size",
    "target_hidden_size",
    "markov_rank",
    "markov_head_type",
];
/// Keys that stand only in `dflash_config`.
const INNER: &[&str] = &["causal"];
/// Keys that only describe.
const DESCRIBES: &[&str] = &[
    "dflash_config",
    "has_embed_tokens",
    "has_lm_head",
    "mask_token",
    "name_or_path",
    "target_model_name_or_path",
];

/// The layout of the drafts' authors: flat (older) or with the draft's own keys in `dflash_config`.
pub(super) fn read(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<DraftConfig, ModelError> {
    let inner = config.object("dflash_config")?;
    refuse_unknown(inner.as_ref())?;
    notes.extend(note_unread(config, &[READ, EITHER, DESCRIBES, HARMLESS], &[CHANGES]));
    let places = Places { config, inner };
    let block = places.find("block_size", |keys, key| keys.integer(key, MAX_BLOCK))?;
    let mask = places.find("mask_token_id", |keys, key| keys.integer(key, MAX_SIZE))?;
    let causality = Causality { all: places.causal()?, sliding: None };
    let rank = places.find("markov_rank", |keys, key| keys.integer(key, MAX_RANK))?;
    let kind =
        places.find("markov_head_type", |keys, key| keys.text(key).map(|text| text.map(str::to_owned)))?;
    let taps = places.find("target_layer_ids", |keys, key| keys.ids(key))?;
    Ok(DraftConfig {
        layout: Layout::Zlab,
        block: block.ok_or_else(|| config.missing("block_size"))?,
        mask_id: mask.ok_or_else(|| config.missing("dflash_config.mask_token_id"))? as u32,
        taps: taps.map(|ids| ids.into_iter().map(|id| id as usize).collect()),
        target_layers: places.find("num_target_layers", |keys, key| keys.size(key))?,
        target_hidden: places.find("target_hidden_size", |keys, key| keys.size(key))?,
        draft_vocab: places.find("draft_vocab_size", |keys, key| keys.size(key))?,
        markov_rank: markov_rank(config, rank, kind.as_deref())?,
        body: Body::read(config, causality)?,
    })
}

/// What is new inside `dflash_config` is new mathematics until shown otherwise.
fn refuse_unknown(inner: Option<&Keys<'_>>) -> Result<(), ModelError> {
    let Some(inner) = inner else { return Ok(()) };
    let known = |key: &str| [EITHER, INNER, DESCRIBES].iter().any(|list| list.contains(&key));
    match inner.entries().find(|(key, value)| !value.is_null() && !known(key)) {
        Some((key, _)) => Err(inner.refused(key, "this draft setting is unknown")),
        None => Ok(()),
    }
}

/// The two places where a key may stand.
struct Places<'a> {
    config: &'a Keys<'a>,
    inner: Option<Keys<'a>>,
}

impl Places<'_> {
    /// The value of a key that may stand in either place, or in both when they agree.
    fn find<T: PartialEq>(
        &self,
        key: &str,
        get: impl Fn(&Keys<'_>, &str) -> Result<Option<T>, ModelError>,
    ) -> Result<Option<T>, ModelError> {
        let outer = get(self.config, key)?;
        let inner = self.inner.as_ref().map(|keys| get(keys, key)).transpose()?.flatten();
        match (outer, inner) {
            (Some(a), Some(b)) if a != b => Err(self.conflict(key, key)),
            (a, b) => Ok(a.or(b)),
        }
    }

    /// `is_causal` in either place, or `dflash_config.causal`.
    fn causal(&self) -> Result<Option<bool>, ModelError> {
        let named = self.find("is_causal", |keys, key| keys.flag(key))?;
        let short = self.inner.as_ref().map(|keys| keys.flag("causal")).transpose()?.flatten();
        match (named, short) {
            (Some(a), Some(b)) if a != b => Err(self.conflict("is_causal", "causal")),
            (a, b) => Ok(a.or(b)),
        }
    }

    fn conflict(&self, outer: &str, inner: &str) -> ModelError {
        let said =
            |keys: &Keys<'_>, key: &str| (keys.name(key), keys.get(key).map(shown).unwrap_or_default());
        let second = self.inner.as_ref().map(|keys| said(keys, inner)).unwrap_or_default();
        self.config.conflict(said(self.config, outer), second)
    }
}

/// Layers spread evenly from the second to the third last, when the config lists none: one per draft layer.
pub(super) fn default_taps(target_layers: usize, draft_layers: usize) -> Vec<usize> {
    if draft_layers <= 1 {
        return vec![target_layers / 2];
    }
    let span = target_layers as f64 - 4.0;
    let place = |i: usize| (1.0 + i as f64 * span / (draft_layers as f64 - 1.0)).round_ties_even();
    (0..draft_layers).map(|i| place(i).max(0.0) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::default_taps;

    #[test]
    fn default_taps_match_the_known_pairs() {
        assert_eq!(default_taps(36, 5), [1, 9, 17, 25, 33]);
        assert_eq!(default_taps(40, 5), [1, 10, 19, 28, 37]);
        assert_eq!(default_taps(64, 5), [1, 16, 31, 46, 61]);
        assert_eq!(default_taps(30, 1), [15]);
    }
}
