use std::sync::Arc;

use dflash_tensor::{Activation, AffineScale, Format, Mask, Rope, Weight};
use half::{bf16, f16};

use super::config::{Config, Habits, LayerPlan, Reach};
use super::inputs::{InputGate, LayerInputs};
use super::layer::{Layer, Norms};
use super::mixture::Mixture;
use super::model::Gemma4;
use super::names::is_other_tower;
use crate::attention::{Attention, AttentionShape, ValueSource};
use crate::checkpoint::Checkpoint;
use crate::loader::{BiasRule, LoadContext, Loader, NormRule};
use crate::mlp::{Mlp, MlpShape};
use crate::tables::TokenTables;
use crate::{ModelError, Target, TargetSpec};

/// Reads the tensors of a model.
pub(super) fn load(
    checkpoint: &Checkpoint,
    config: Config,
    stop_ids: Vec<u32>,
    context: &mut LoadContext<'_>,
) -> Result<Box<dyn Target>, ModelError> {
    let backend = Arc::clone(&context.backend);
    let mut loader = Loader::new(checkpoint, context, None);
    skip_unread(&mut loader, &config);
    let sizes = [config.vocab, config.hidden];
    let tables = TokenTables::load(&mut loader, sizes, config.tied)?;
    let inputs = inputs(&mut loader, &config)?;
    let layers = layers(&mut loader, &config)?;
    let norm = loader.gain("model.norm.weight", config.hidden, NormRule::Plain)?;
    loader.finish()?;
    Ok(Box::new(Gemma4 {
        backend,
        scale: scale_in_type(&tables.embedding, config.hidden),
        embedding: tables.embedding,
        inputs,
        layers,
        norm,
        eps: config.eps,
        head: tables.head,
        softcap: config.softcap,
        spec: spec(&config, stop_ids),
    }))
}

fn spec(config: &Config, stop_ids: Vec<u32>) -> TargetSpec {
    TargetSpec {
        family: "gemma4",
        hidden: config.hidden,
        layers: config.layers.len(),
        vocab: config.vocab,
        context: config.context,
        stop_ids,
    }
}

/// The factor of embeddings `width` wide: its root, rounded to the type that the file holds them in, because
/// that is where the model was trained with it.
pub(super) fn scale_in_type(table: &Weight, width: usize) -> f32 {
    let root = (width as f64).sqrt() as f32;
    match table.parts()[0].format {
        Format::Bf16 | Format::Affine { scale: AffineScale::Bf16, .. } => bf16::from_f32(root).to_f32(),
        Format::F16 | Format::Affine { scale: AffineScale::F16, .. } => f16::from_f32(root).to_f32(),
        _ => root,
    }
}

/// The prefix of a layer's tensors, without the dot.
fn prefix(index: usize) -> String {
    format!("model.layers.{index}")
}

fn skip_unread(loader: &mut Loader<'_, '_>, config: &Config) {
    let towers = loader.checkpoint().skip(is_other_tower);
    if towers > 0 {
        loader.note(format!("{towers} tensors of the vision and audio towers are not read"));
    }
    let shared = config.layers.iter().enumerate().filter(|(_, plan)| plan.values == ValueSource::Shared);
    let prefixes = shared.map(|(index, _)| format!("{}.self_attn.", prefix(index))).collect::<Vec<_>>();
    let unread = |name: &str| {
        let module = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        module.is_some_and(|module| ["k_proj.", "v_proj.", "k_norm."].iter().any(|k| module.starts_with(k)))
    };
    let skipped = loader.checkpoint().skip(unread);
    if skipped > 0 {
        loader.note(format!("{skipped} key and value tensors of layers that share others' are not read"));
    }
}

fn inputs(loader: &mut Loader<'_, '_>, config: &Config) -> Result<Option<LayerInputs>, ModelError> {
    let load = |width| {
        let sizes = [config.vocab, config.hidden, config.layers.len(), width];
        LayerInputs::load(loader, sizes, config.eps)
    };
    config.layer_inputs.map(load).transpose()
}

fn layers(loader: &mut Loader<'_, '_>, config: &Config) -> Result<Vec<Layer>, ModelError> {
    let rope = |habits: &Habits| {
        Arc::new(Rope::new(habits.kv.dim, habits.rope.base, &habits.rope.scaling, config.context))
    };
    let [sliding, full] = [&config.sliding, &config.full].map(|habits| habits.as_ref().map(rope));
    let layer = |(index, plan): (usize, &LayerPlan)| {
        let rope = match plan.reach {
            Reach::Sliding => &sliding,
            Reach::Full => &full,
        };
        let rope = rope.as_ref().expect("a rotary embedding of every reach in use");
        layer(loader, config, (&prefix(index), index), plan, rope)
    };
    config.layers.iter().enumerate().map(layer).collect()
}

fn layer(
    loader: &mut Loader<'_, '_>,
    config: &Config,
    (prefix, index): (&str, usize),
    plan: &LayerPlan,
    rope: &Arc<Rope>,
) -> Result<Layer, ModelError> {
    let hidden = config.hidden;
    let shape = attention(config, plan);
    let mask = Mask { window: config.habits(plan.reach).window, ..Mask::CAUSAL };
    let module = format!("{prefix}.self_attn");
    let attention = Attention::load_normed_values(loader, &module, &shape, plan.values, rope, mask)?;
    let mlp = Mlp::load(loader, &format!("{prefix}.mlp"), &mlp(config, plan))?;
    let mixture = config.experts.map(|shape| Mixture::load(loader, prefix, &shape)).transpose()?;
    let input = config.layer_inputs.map(|width| InputGate::load(loader, prefix, [index, hidden, width]));
    let input = input.transpose()?;
    let norms = norms(loader, prefix, hidden)?;
    let scalar = loader.floats(&format!("{prefix}.layer_scalar"), 1)?[0];
    Ok(Layer { cache: plan.cache, attention, mlp, mixture, input, norms, eps: config.eps, scalar })
}

fn attention(config: &Config, plan: &LayerPlan) -> AttentionShape {
    AttentionShape {
        hidden: config.hidden,
        heads: config.heads,
        kv: config.habits(plan.reach).kv,
        scale: 1.0,
        eps: config.eps,
        qkv_bias: config.bias,
        output_bias: config.bias,
        head_norms: Some(NormRule::Plain),
        output_gate: false,
        interleaved: false,
    }
}

fn mlp(config: &Config, plan: &LayerPlan) -> MlpShape {
    MlpShape { hidden: config.hidden, ffn: plan.ffn, activation: Activation::GeluTanh, bias: BiasRule::Never }
}

fn norms(loader: &mut Loader<'_, '_>, prefix: &str, hidden: usize) -> Result<Norms, ModelError> {
    let mut norm = |name: &str| loader.gain(&format!("{prefix}.{name}.weight"), hidden, NormRule::Plain);
    Ok(Norms {
        input: norm("input_layernorm")?,
        post_attention: norm("post_attention_layernorm")?,
        pre_ffn: norm("pre_feedforward_layernorm")?,
        post_ffn: norm("post_feedforward_layernorm")?,
    })
}
