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
use crate::tables::TokenTables;
use crate::{ModelError, Target, TargetSpec};

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
    let sizes = [config.vocab, config.hidden];
    let TokenTables { embedding, head } = TokenTables::load(&mut loader, sizes, config.tied)?;
    let layers = layers(&config, &mut loader)?;
    let norm = loader.gain("model.norm.weight", config.hidden, config.norms)?;
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

fn skip_redundant(loader: &mut Loader<'_, '_>) {
    let skipped = loader.checkpoint().skip(|name| name.ends_with("rotary_emb.inv_freq"));
    if skipped > 0 {
        loader.note(format!("{skipped} rotary_emb.inv_freq tensors are computed, not read"));
    }
}
