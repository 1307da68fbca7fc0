use std::sync::Arc;

use dflash_tensor::{Mask, Rope};

use super::Llama;
use super::config::LlamaConfig;
use super::gguf::canonical;
use crate::checkpoint::Checkpoint;
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::layer::{DenseLayer, LayerShape};
use crate::loader::{LoadContext, Loader};
use crate::text::GgufVocabulary;
use crate::workspace::Widths;
use crate::{ModelError, Target, TargetSpec};

const EMBEDDING: &str = "model.embed_tokens";
const HEAD: &str = "lm_head";
const ROPE_FREQS: &str = "rope_freqs.weight";

/// From a directory in HF layout.
pub(crate) fn from_hf(dir: &HfDir, context: &mut LoadContext<'_>) -> Result<Box<dyn Target>, ModelError> {
    let config = LlamaConfig::from_json(&dir.config.keys()?, &mut context.notes)?;
    let stop_ids = dir.stop_ids()?;
    load(&dir.checkpoint()?, config, stop_ids, context)
}

/// From a GGUF file.
pub(crate) fn from_gguf(
    gguf: Gguf,
    vocabulary: &GgufVocabulary,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let metadata = gguf.metadata.clone();
    let checkpoint = Checkpoint::from_gguf(gguf, canonical)?;
    let config = LlamaConfig::from_gguf(
        &metadata,
        vocabulary.tokens.len(),
        |dim| factors(&checkpoint, dim),
        &mut context.notes,
    )?;
    load(&checkpoint, config, vocabulary.stop_ids(), context)
}

/// Divisors of the rotary frequencies, one per pair of a head.
fn factors(checkpoint: &Checkpoint, dim: usize) -> Result<Option<Vec<f32>>, ModelError> {
    if !checkpoint.contains(ROPE_FREQS) {
        return Ok(None);
    }
    let factors = checkpoint.floats(ROPE_FREQS, dim / 2)?;
    if factors.iter().any(|factor| !(factor.is_finite() && *factor > 0.0)) {
        return Err(checkpoint.bad_tensor(ROPE_FREQS, "divisors that are not positive"));
    }
    Ok(Some(factors))
}

fn load(
    checkpoint: &Checkpoint,
    config: LlamaConfig,
    stop_ids: Vec<u32>,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let backend = Arc::clone(&context.backend);
    let mut loader = Loader::new(checkpoint, context, None);
    skip_redundant(&mut loader);
    let tied = tied(&config, &mut loader)?;
    let embedding = loader.table(EMBEDDING, table_rows(&config, checkpoint, EMBEDDING)?, config.hidden)?;
    let layers = layers(&config, &mut loader)?;
    let norm = loader.gain("model.norm.weight", config.hidden)?;
    let head = match tied {
        true => Arc::clone(&embedding),
        false => loader.table(HEAD, table_rows(&config, checkpoint, HEAD)?, config.hidden)?,
    };
    loader.finish()?;
    let (spec, widths) = (spec(&config, stop_ids), widths(&config));
    Ok(Box::new(Llama {
        backend,
        spec,
        widths,
        kv: config.kv,
        embedding,
        layers,
        norm,
        eps: config.eps,
        head,
    }))
}

fn spec(config: &LlamaConfig, stop_ids: Vec<u32>) -> TargetSpec {
    TargetSpec {
        family: "llama",
        hidden: config.hidden,
        layers: config.layers,
        vocab: config.vocab,
        context: config.context,
        stop_ids,
    }
}

fn widths(config: &LlamaConfig) -> Widths {
    let (q, kv) = (config.heads * config.kv.dim, config.kv.heads * config.kv.dim);
    Widths { hidden: config.hidden, q, kv, ffn: config.ffn }
}

fn layers(config: &LlamaConfig, loader: &mut Loader<'_, '_>) -> Result<Vec<DenseLayer>, ModelError> {
    let rope = Arc::new(Rope::new(config.kv.dim, config.rope.base, &config.rope.scaling, config.context));
    let shape = LayerShape {
        hidden: config.hidden,
        ffn: config.ffn,
        heads: config.heads,
        kv: config.kv,
        eps: config.eps,
        attention_bias: config.attention_bias,
        mlp_bias: config.mlp_bias,
        head_norms: false,
        interleaved: config.interleaved,
        split: false,
    };
    let layer = |i| DenseLayer::load(loader, &format!("model.layers.{i}"), &shape, &rope, Mask::CAUSAL);
    (0..config.layers).map(layer).collect()
}

/// Rows of a table, which may have padding beyond the valid ids.
fn table_rows(config: &LlamaConfig, checkpoint: &Checkpoint, module: &str) -> Result<usize, ModelError> {
    let name = format!("{module}.weight");
    let rows = checkpoint.shape(&name).and_then(|shape| shape.first().copied());
    // A missing tensor is reported when it is taken.
    let rows = rows.unwrap_or(config.vocab);
    if rows < config.vocab {
        let what = format!("{rows} rows, fewer than the {} ids of the vocabulary", config.vocab);
        return Err(checkpoint.bad_tensor(&name, what));
    }
    Ok(rows)
}

/// Whether embedding and head are one table.
fn tied(config: &LlamaConfig, loader: &mut Loader<'_, '_>) -> Result<bool, ModelError> {
    let checkpoint = loader.checkpoint();
    let error = |what| Err(ModelError::Tie { path: checkpoint.path().to_owned(), what });
    match (config.tied, checkpoint.contains("lm_head.weight")) {
        (Some(true), true) if same_bytes(checkpoint)? => {
            checkpoint.skip(|name| name.starts_with("lm_head."));
            loader.note("lm_head.weight repeats the tied embedding and is not read".into());
            Ok(true)
        }
        (Some(true), true) => error(
            "tie_word_embeddings is true, but lm_head.weight is there and differs from the embedding; \
             set the key to false if the head is meant",
        ),
        (Some(false), false) => error("tie_word_embeddings is false, but lm_head.weight is missing"),
        (_, head) => Ok(!head),
    }
}

fn same_bytes(checkpoint: &Checkpoint) -> Result<bool, ModelError> {
    let tensor = |module: &str, tail: &str| checkpoint.take_any(&format!("{module}.{tail}"));
    for tail in ["weight", "scales", "biases"] {
        let (a, b) = (format!("{EMBEDDING}.{tail}"), format!("{HEAD}.{tail}"));
        match (checkpoint.contains(&a), checkpoint.contains(&b)) {
            (false, false) => {}
            (true, true) => {
                let (a, b) = (tensor(EMBEDDING, tail)?, tensor(HEAD, tail)?);
                if (a.element, a.shape, a.bytes) != (b.element, b.shape, b.bytes) {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn skip_redundant(loader: &mut Loader<'_, '_>) {
    let skipped = loader.checkpoint().skip(|name| name.ends_with("rotary_emb.inv_freq"));
    if skipped > 0 {
        loader.note(format!("{skipped} rotary_emb.inv_freq tensors are computed, not read"));
    }
}
