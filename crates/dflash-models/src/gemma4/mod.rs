//! Gemma 4 text models: norms before and after every part of a layer, sliding and full attention of different
//! widths, keys and values that the last layers share, inputs per layer, experts beside the MLP.

mod config;
mod gguf;
mod inputs;
mod json;
mod layer;
mod load;
mod mixture;
mod model;
mod names;
mod overrides;
mod rope;

use crate::checkpoint::Checkpoint;
use crate::families::Family;
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{ModelError, Target};

/// How it is loaded: with the text model in `text_config`, as multimodal checkpoints have it, or alone.
pub(crate) const FAMILY: Family =
    Family { model_types: &["gemma4", "gemma4_text"], arch: "gemma4", hf: from_hf, gguf: from_gguf };

fn from_hf(dir: &HfDir, context: &mut LoadContext<'_>) -> Result<Box<dyn Target>, ModelError> {
    let config = json::read(&dir.config.keys()?, &mut context.notes)?;
    let checkpoint = dir.checkpoint(names::of_hf)?;
    load::load(&checkpoint, config, dir.stop_ids()?, context)
}

fn from_gguf(
    gguf: Gguf,
    vocabulary: &GgufVocabulary,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let metadata = gguf.metadata.clone();
    let checkpoint = Checkpoint::from_gguf(gguf, |name| names::GGUF.canonical(name))?;
    let vocab = vocabulary.tokens.len();
    let config = gguf::read(&metadata, &checkpoint, vocab, &mut context.notes)?;
    load::load(&checkpoint, config, vocabulary.stop_ids(), context)
}
