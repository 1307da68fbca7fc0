//! Decoders whose layers are Gated DeltaNet or gated attention: Qwen3.5, Qwen3.6 and Qwen3-Next.

mod config;
mod gguf;
mod names;

use crate::checkpoint::Checkpoint;
use crate::conv::ConvLayout;
use crate::decoder::{self, DecoderConfig, LayerPlan, MixerPlan};
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::{LoadContext, NormRule};
use crate::text::GgufVocabulary;
use crate::{ModelError, Target};

/// What tells the hybrid families apart.
pub(crate) struct HybridRules {
    /// Structural kind.
    pub(crate) family: &'static str,
    /// Architecture name of GGUF.
    pub(crate) arch: &'static str,
    /// Whether the input projections of Gated DeltaNet are fused in HF files.
    pub(crate) fused: bool,
    /// Whether layers may have experts.
    pub(crate) experts: bool,
    /// Whether value heads stand in tiled order in GGUF.
    pub(crate) gguf_tiled: bool,
}

/// From a directory in HF layout, as trained or as mlx-lm converts it.
pub(crate) fn from_hf(
    rules: &HybridRules,
    dir: &HfDir,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let mut config = config::from_json(rules, &dir.config.keys()?, &mut context.notes)?;
    let checkpoint = dir.checkpoint(names::of_hf)?;
    config.set_norms(norms(&checkpoint, &config)?);
    skip_other_parts(&checkpoint, context);
    decoder::load(&checkpoint, config, dir.stop_ids()?, context)
}

/// From a GGUF file.
pub(crate) fn from_gguf(
    rules: &HybridRules,
    gguf: Gguf,
    vocabulary: &GgufVocabulary,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let metadata = gguf.metadata.clone();
    let (config, extra) = gguf::from_gguf(rules, &metadata, vocabulary.tokens.len(), &mut context.notes)?;
    let checkpoint = Checkpoint::from_gguf(gguf, |name| names::GGUF.canonical(name))?;
    if extra > 0 {
        let key = format!("{}.nextn_predict_layers", rules.arch);
        if (0..extra).any(|layer| !predicts_ahead(&checkpoint, config.layers.len() + layer)) {
            return Err(metadata.bad(&key, "the number of last blocks that have nextn tensors"));
        }
        skip_extra_layers(&checkpoint, config.layers.len(), context);
    }
    decoder::load(&checkpoint, config, vocabulary.stop_ids(), context)
}

/// Gains are stored less one exactly where the convolution is as it was trained. Nothing else tells: files
/// of both kinds carry MTP tensors or lack them.
///
/// # Errors
/// Layers that disagree: the file was put together from both kinds.
fn norms(checkpoint: &Checkpoint, config: &DecoderConfig) -> Result<NormRule, ModelError> {
    let linear =
        |(index, layer): (usize, &LayerPlan)| matches!(layer.mixer, MixerPlan::Delta(_)).then_some(index);
    let name = |layer| format!("model.layers.{layer}.linear_attn.conv1d.weight");
    let mut names = config.layers.iter().enumerate().filter_map(linear).map(name);
    let Some(first) = names.next() else { return Ok(NormRule::ZeroCentred) };
    let layout = ConvLayout::of(checkpoint, &first);
    // A missing tensor is reported when it is taken.
    let differs = |name: &String| checkpoint.contains(name) && ConvLayout::of(checkpoint, name) != layout;
    if let Some(other) = names.find(differs) {
        return Err(checkpoint.bad_tensor(&other, format!("another layout than {first} has")));
    }
    Ok(match layout {
        ConvLayout::Converted => NormRule::Plain,
        ConvLayout::Raw => NormRule::ZeroCentred,
    })
}

/// Parts of the file that text generation without multi-token prediction does not use.
fn skip_other_parts(checkpoint: &Checkpoint, context: &mut LoadContext<'_>) {
    let (vision, mtp) = (checkpoint.skip(names::is_vision), checkpoint.skip(names::is_mtp));
    for (part, skipped) in [("vision", vision), ("MTP", mtp)] {
        if skipped > 0 {
            context.notes.push(format!("{skipped} {part} tensors are not read"));
        }
    }
}

/// Whether a layer has tensors that only multi-token prediction needs: a count that is too high must not
/// shorten the model.
fn predicts_ahead(checkpoint: &Checkpoint, layer: usize) -> bool {
    let prefix = format!("blk.{layer}.nextn.");
    checkpoint.names().any(|name| name.starts_with(&prefix))
}

/// Layers from `first` on predict several tokens ahead.
fn skip_extra_layers(checkpoint: &Checkpoint, first: usize, context: &mut LoadContext<'_>) {
    // The names of layers and their tensors as the file has them, and those that are known.
    let layer = |name: &str| {
        let rest = name.strip_prefix("model.layers.").or_else(|| name.strip_prefix("blk."))?;
        rest.split('.').next()?.parse::<usize>().ok()
    };
    let skipped = checkpoint.skip(|name| layer(name).is_some_and(|layer| layer >= first));
    context.notes.push(format!("{skipped} MTP tensors are not read"));
}
