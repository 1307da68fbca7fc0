use std::sync::Arc;

use dflash_tensor::Rope;

use super::{Decoder, DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::attention::Attention;
use crate::checkpoint::Checkpoint;
use crate::conv::ShortConv;
use crate::delta::GatedDelta;
use crate::layer::{FeedForward, Layer, Mixer};
use crate::loader::{LoadContext, Loader};
use crate::mlp::Mlp;
use crate::moe::Moe;
use crate::{ModelError, Target, TargetSpec};

const EMBEDDING: &str = "model.embed_tokens";
const HEAD: &str = "lm_head";

/// Reads the tensors of a decoder, whose names are those of the HF layout of a Llama.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    config: DecoderConfig,
    stop_ids: Vec<u32>,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let backend = Arc::clone(&context.backend);
    let mut loader = Loader::new(checkpoint, context, None);
    skip_redundant(&mut loader);
    let tied = tied(&config, &mut loader)?;
    let embedding = loader.table(EMBEDDING, table_rows(&config, checkpoint, EMBEDDING)?, config.hidden)?;
    let layers = layers(&config, &mut loader)?;
    let norm = loader.gain("model.norm.weight", config.hidden, config.norms)?;
    let head = match tied {
        true => Arc::clone(&embedding),
        false => loader.table(HEAD, table_rows(&config, checkpoint, HEAD)?, config.hidden)?,
    };
    loader.finish()?;
    let (spec, eps) = (spec(&config, stop_ids), config.eps);
    Ok(Box::new(Decoder { backend, spec, embedding, layers, norm, eps, head }))
}

fn spec(config: &DecoderConfig, stop_ids: Vec<u32>) -> TargetSpec {
    TargetSpec {
        family: config.family,
        hidden: config.hidden,
        layers: config.layers.len(),
        vocab: config.vocab,
        context: config.context,
        stop_ids,
    }
}

fn layers(config: &DecoderConfig, loader: &mut Loader<'_, '_>) -> Result<Vec<Layer>, ModelError> {
    let rope = Rope::new(config.rotary, config.rope.base, &config.rope.scaling, config.context);
    let (rope, norms) = (Arc::new(rope), (config.hidden, config.eps, config.norms));
    let layer = |(i, plan): (usize, &LayerPlan)| {
        let prefix = format!("model.layers.{i}");
        let mixer = mixer(config, plan, loader, &prefix, &rope)?;
        let ffn = ffn(plan, loader, &prefix)?;
        Layer::load(loader, &prefix, norms, mixer, ffn)
    };
    config.layers.iter().enumerate().map(layer).collect()
}

fn mixer(
    config: &DecoderConfig,
    plan: &LayerPlan,
    loader: &mut Loader<'_, '_>,
    prefix: &str,
    rope: &Arc<Rope>,
) -> Result<Mixer, ModelError> {
    Ok(match plan.mixer {
        MixerPlan::Attention(mask) => {
            let prefix = format!("{prefix}.self_attn");
            Mixer::Attention(Attention::load(loader, &prefix, &config.attention, rope, mask)?)
        }
        MixerPlan::Delta(shape) => {
            Mixer::Delta(GatedDelta::load(loader, &format!("{prefix}.linear_attn"), &shape)?)
        }
        MixerPlan::Conv(shape) => Mixer::Conv(ShortConv::load(loader, &format!("{prefix}.conv"), &shape)?),
    })
}

fn ffn(plan: &LayerPlan, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<FeedForward, ModelError> {
    let prefix = format!("{prefix}.mlp");
    Ok(match &plan.ffn {
        FfnPlan::Dense(shape) => FeedForward::Dense(Mlp::load(loader, &prefix, shape)?),
        FfnPlan::Sparse(shape) => FeedForward::Sparse(Moe::load(loader, &prefix, shape)?),
    })
}

/// Rows of a table, which may have padding beyond the valid ids.
fn table_rows(config: &DecoderConfig, checkpoint: &Checkpoint, module: &str) -> Result<usize, ModelError> {
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
fn tied(config: &DecoderConfig, loader: &mut Loader<'_, '_>) -> Result<bool, ModelError> {
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
