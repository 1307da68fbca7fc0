//! LFM2: gated short convolutions between attention layers.

mod config;
mod gguf;
mod names;

use crate::checkpoint::Checkpoint;
use crate::families::Family;
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{ModelError, Target, decoder};

/// How it is loaded.
pub(crate) const FAMILY: Family =
    Family { model_types: &["lfm2"], arch: "lfm2", hf: from_hf, gguf: from_gguf };

fn from_hf(dir: &HfDir, context: &mut LoadContext<'_>) -> Result<Box<dyn Target>, ModelError> {
    let config = config::from_json(&dir.config.keys()?, &mut context.notes)?;
    decoder::load(&dir.checkpoint(names::of_hf)?, config, dir.stop_ids()?, context)
}

fn from_gguf(
    gguf: Gguf,
    vocabulary: &GgufVocabulary,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let metadata = gguf.metadata.clone();
    let checkpoint = Checkpoint::from_gguf(gguf, |name| names::GGUF.canonical(name))?;
    let config = gguf::from_gguf(&metadata, vocabulary.tokens.len(), &mut context.notes)?;
    decoder::load(&checkpoint, config, vocabulary.stop_ids(), context)
}
