//! Dense decoders: Llama and those that differ from it by a few habits.

mod config;
mod gguf;

use crate::checkpoint::Checkpoint;
use crate::gguf::Gguf;
use crate::gguf_names::PLAIN;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{ModelError, Target, decoder};

/// What tells a dense family from Llama.
pub(crate) struct DenseRules {
    /// `model_type`.
    pub(crate) family: &'static str,
    /// Architecture name of GGUF.
    pub(crate) arch: &'static str,
    /// Whether q, k and v always have a bias; otherwise the config says so.
    pub(crate) qkv_bias: bool,
    /// Whether queries and keys are normalised per head.
    pub(crate) head_norms: bool,
    /// Whether layers may have sliding windows.
    pub(crate) sliding: bool,
    /// Rotary scalings it is published with.
    pub(crate) rope_kinds: &'static [&'static str],
    /// Whether layers have experts, and if so, whether the weights of a row's experts are divided by their
    /// sum where the config does not say.
    pub(crate) experts: Option<bool>,
    /// Whether the rows of q and k stand interleaved in GGUF.
    pub(crate) gguf_interleaved: bool,
}

const ROPE_FREQS: &str = "rope_freqs.weight";

/// From a directory in HF layout.
pub(crate) fn from_hf(
    rules: &DenseRules,
    dir: &HfDir,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let config = config::from_json(rules, &dir.config.keys()?, &mut context.notes)?;
    let stop_ids = dir.stop_ids()?;
    decoder::load(
        &dir.checkpoint(|name| name.replace(".switch_mlp.", ".experts."))?,
        config,
        stop_ids,
        context,
    )
}

/// From a GGUF file.
pub(crate) fn from_gguf(
    rules: &DenseRules,
    gguf: Gguf,
    vocabulary: &GgufVocabulary,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let metadata = gguf.metadata.clone();
    let checkpoint = Checkpoint::from_gguf(gguf, |name| PLAIN.canonical(name))?;
    let (vocab, factors) = (vocabulary.tokens.len(), |rotary| factors(&checkpoint, rotary));
    let config = gguf::from_gguf(rules, &metadata, vocab, factors, &mut context.notes)?;
    decoder::load(&checkpoint, config, vocabulary.stop_ids(), context)
}

/// Divisors of the rotary frequencies, one per pair of the `rotary` dimensions.
fn factors(checkpoint: &Checkpoint, rotary: usize) -> Result<Option<Vec<f32>>, ModelError> {
    if !checkpoint.contains(ROPE_FREQS) {
        return Ok(None);
    }
    let factors = checkpoint.floats(ROPE_FREQS, rotary / 2)?;
    if factors.iter().any(|factor| !(factor.is_finite() && *factor > 0.0)) {
        return Err(checkpoint.bad_tensor(ROPE_FREQS, "divisors that are not positive"));
    }
    Ok(Some(factors))
}
