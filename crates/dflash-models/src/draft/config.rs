use std::path::Path;

use super::body::Body;
use super::kind::require_supported;
use super::{speculators, zlab};
use crate::ModelError;
use crate::json::Keys;
use crate::refuse::{Neutral, NeutralValue, neutral, refuse};

/// Which toolkit's files a draft is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Body only; embedding and head are the target's.
    Zlab,
    /// May bring its own embedding and a head over a reduced vocabulary.
    Speculators,
    /// As llama.cpp writes them: may bring tables of its own.
    Gguf,
}

/// What the mathematics of a draft needs, whichever layout it comes in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DraftConfig {
    pub(super) layout: Layout,
    pub(super) body: Body,
    /// Trained block length, the staged token included.
    pub(super) block: usize,
    pub(super) mask_id: u32,
    /// Target layers in the order of the features; `None` asks for the default ones.
    pub(super) taps: Option<Vec<usize>>,
    pub(super) target_layers: Option<usize>,
    pub(super) target_hidden: Option<usize>,
    /// Rows of the draft's own head.
    pub(super) draft_vocab: Option<usize>,
    /// Rank of the Markov head, if there is one.
    pub(super) markov_rank: Option<usize>,
}

/// Blocks beyond this are damage.
pub(super) const MAX_BLOCK: usize = 1024;
/// Ranks of Markov heads beyond this are damage.
pub(super) const MAX_RANK: usize = 1 << 16;

/// Keys that change the mathematics and are not implemented.
pub(super) const CHANGES: &[Neutral] = &[
    neutral("attention_sink_bias", NeutralValue::Nothing),
    neutral("attention_value_scale", NeutralValue::One),
    neutral("attn_logit_softcapping", NeutralValue::Zero),
    neutral("conv_group_size", NeutralValue::Nothing),
    neutral("conv_kernel_size", NeutralValue::Nothing),
    neutral("enable_confidence_head", NeutralValue::Nothing),
    neutral("input_embedding_scale", NeutralValue::One),
    neutral("logit_scale", NeutralValue::One),
    neutral("mlp_bias", NeutralValue::Nothing),
    neutral("output_multiplier", NeutralValue::One),
    neutral("partial_rotary_factor", NeutralValue::One),
    neutral("projector_type", NeutralValue::Nothing),
    neutral("query_pre_attn_scalar", NeutralValue::Nothing),
    neutral("sample_from_anchor", NeutralValue::Nothing),
    neutral("selector_rank", NeutralValue::Nothing),
    neutral("selector_top_k", NeutralValue::Nothing),
    neutral("swa_window_size", NeutralValue::Zero),
    neutral("use_swa", NeutralValue::Nothing),
];

impl DraftConfig {
    /// Reads either layout; adds a note on keys that are not read.
    ///
    /// # Errors
    /// A draft of another generation, missing or conflicting keys, anything that is not implemented.
    pub(super) fn read(config: &Keys<'_>, notes: &mut Vec<String>) -> Result<Self, ModelError> {
        require_supported(config)?;
        refuse_changes(config)?;
        let draft = match config.text("speculators_model_type")? {
            None => zlab::read(config, notes)?,
            Some("dflash") => speculators::read(config, notes)?,
            Some(_) => return Err(config.refused("speculators_model_type", "dflash is")),
        };
        draft.check(|key, expected| config.bad(key, expected))
    }

    /// Checks what every layout must keep; `bad` makes the error of a key.
    pub(super) fn check(self, bad: impl Fn(&str, &str) -> ModelError) -> Result<Self, ModelError> {
        if !(2..=MAX_BLOCK).contains(&self.block) {
            return Err(bad("block_size", &format!("2 to {MAX_BLOCK}")));
        }
        if self.taps.as_ref().is_some_and(Vec::is_empty) {
            let key = if self.layout == Layout::Gguf { "target_layers" } else { "target_layer_ids" };
            return Err(bad(key, "at least one layer"));
        }
        Ok(self)
    }

    /// The tapped layers, for a target of `layers` layers.
    pub(super) fn taps(&self, layers: usize) -> Vec<usize> {
        self.taps.clone().unwrap_or_else(|| match self.layout {
            // A GGUF draft always lists its layers.
            Layout::Zlab | Layout::Gguf => zlab::default_taps(layers, self.body.layers.len()),
            Layout::Speculators => speculators::default_taps(layers),
        })
    }
}

/// Keys of a Markov head, for layouts in which none is read.
pub(super) const MARKOV: &[Neutral] =
    &[neutral("markov_head_type", NeutralValue::Nothing), neutral("markov_rank", NeutralValue::Zero)];

/// The rank of a Markov head from its keys; `None` where there is none.
///
/// # Errors
/// A head of another kind than the plain one.
pub(super) fn markov_rank(
    config: &Keys<'_>,
    rank: Option<usize>,
    kind: Option<&str>,
) -> Result<Option<usize>, ModelError> {
    match (rank.filter(|&rank| rank > 0), kind) {
        (None, None) => Ok(None),
        (Some(rank), None | Some("vanilla")) => Ok(Some(rank)),
        (_, Some(_)) => Err(config.refused("markov_head_type", "vanilla, with a markov_rank, is")),
    }
}

/// Refuses what changes the mathematics, in the config or in one of its sections.
fn refuse_changes(config: &Keys<'_>) -> Result<(), ModelError> {
    refuse(config, CHANGES)?;
    if config.get("transformer_layer_config").is_some() {
        // It is read where the other keys of the layers stand.
        refuse(config, &[neutral("final_logit_softcapping", NeutralValue::Zero)])?;
    }
    for section in ["dflash_config", "transformer_layer_config"] {
        if let Some(keys) = config.object(section)? {
            refuse(&keys, CHANGES)?;
        }
    }
    Ok(())
}

/// A file beside the weights that belongs to a variant which is not implemented.
///
/// # Errors
/// [`ModelError::RefusedTensor`].
pub(super) fn refuse_files(dir: &Path) -> Result<(), ModelError> {
    let name = "mask_embedding.pt";
    if !dir.join(name).exists() {
        return Ok(());
    }
    Err(ModelError::RefusedTensor {
        path: dir.to_owned(),
        tensor: name.into(),
        what: "a mask embedding of the draft's own",
    })
}
