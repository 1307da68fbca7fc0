use std::path::Path;
use std::sync::Arc;

use dflash_tensor::{Activation, Keep, Mask, Rope, Weight};

use super::body::{Body, LayerKind};
use super::check::{fits, refuse_variants};
use super::config::{DraftConfig, refuse_files};
use super::markov::MarkovHead;
use super::model::{Draft, DraftOptions, DraftSpec};
use super::names::GGUF;
use super::tables::Tables;
use crate::attention::{Attention, AttentionShape};
use crate::checkpoint::Checkpoint;
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::layer::{FeedForward, Layer, Mixer};
use crate::loader::{BiasRule, LoadContext, Loader, NormRule, Wanted};
use crate::mlp::{Mlp, MlpShape};
use crate::target::refuse_other_files;
use crate::{DraftQuant, ModelError, Target};

impl Draft {
    /// Loads the draft at `path`, a directory in HF layout or a GGUF file, for `target`, on the target's
    /// backend.
    ///
    /// # Errors
    /// Whatever [`ModelError`] names: no draft, a draft of another generation or for another target,
    /// incomplete or damaged files, tensors that would not be used.
    pub fn load(path: &Path, target: &dyn Target, options: DraftOptions) -> Result<Self, ModelError> {
        check_quant(path, options.quant)?;
        let mut notes = Vec::new();
        let (config, checkpoint) = if path.is_dir() { open_dir(path, &mut notes)? } else { open_file(path)? };
        fits(path, &config, &checkpoint, target)?;
        refuse_variants(&checkpoint, &config)?;
        let backend = Arc::clone(target.backend());
        let mut context = LoadContext { backend, progress: &mut |_, _| {}, notes, packed: 0 };
        let loader = Loader::new(&checkpoint, &mut context, options.quant);
        let mut draft = build(loader, &config, target, options)?;
        (draft.spec.notes, draft.spec.weight_bytes) = (context.notes, context.packed);
        Ok(draft)
    }
}

fn check_quant(path: &Path, quant: Option<DraftQuant>) -> Result<(), ModelError> {
    match quant {
        Some(DraftQuant { bits, group }) if ![2, 4, 8].contains(&bits) || ![32, 64, 128].contains(&group) => {
            let what = format!(
                "{bits} bits in groups of {group} are not supported (2, 4 or 8 in 32, 64 or 128 are)"
            );
            Err(ModelError::Quantization { path: path.to_owned(), module: "draft".into(), what })
        }
        _ => Ok(()),
    }
}

fn open_dir(path: &Path, notes: &mut Vec<String>) -> Result<(DraftConfig, Checkpoint), ModelError> {
    let dir = HfDir::open(path)?;
    let config = DraftConfig::read(&dir.config.keys()?, notes)?;
    refuse_files(path)?;
    Ok((config, dir.checkpoint(str::to_owned)?))
}

fn open_file(path: &Path) -> Result<(DraftConfig, Checkpoint), ModelError> {
    refuse_other_files(path)?;
    let gguf = Gguf::open(path)?;
    let config = DraftConfig::from_gguf(&gguf.metadata)?;
    Ok((config, Checkpoint::from_gguf(gguf, |name| GGUF.canonical(name))?))
}

fn build(
    mut loader: Loader<'_, '_>,
    config: &DraftConfig,
    target: &dyn Target,
    options: DraftOptions,
) -> Result<Draft, ModelError> {
    let taps = config.taps(target.spec().layers);
    note_default_taps(&mut loader, config, &taps);
    let keep = keep(&config.body, options);
    let fuse = fuse(&mut loader, config, taps.len() * target.spec().hidden)?;
    let context_norm = loader.gain("hidden_norm.weight", config.body.hidden, NormRule::Plain)?;
    let positions = target.spec().context + config.block;
    let layers = layers(&mut loader, &config.body, keep, positions)?;
    let norm = loader.gain("norm.weight", config.body.hidden, NormRule::Plain)?;
    let tables = Tables::load(&mut loader, config, target)?;
    let markov = MarkovHead::load(&mut loader, config, target, tables.vocab)?;
    loader.finish()?;
    let spec = spec(config, taps, keep, tables.vocab);
    Ok(Draft {
        backend: Arc::clone(target.backend()),
        spec,
        hidden: config.body.hidden,
        kv: config.body.kv,
        fuse,
        context_norm,
        layers,
        norm,
        eps: config.body.eps,
        tables,
        markov,
    })
}

fn note_default_taps(loader: &mut Loader<'_, '_>, config: &DraftConfig, taps: &[usize]) {
    if config.taps.is_none() {
        loader.note(format!("the draft lists no target layers; its layout's default {taps:?} is used"));
    }
}

/// What of the context is kept: at least what the longest sliding window sees.
fn keep(body: &Body, options: DraftOptions) -> Option<Keep> {
    let tail = options.window?.max(body.window()).max(1);
    Some(Keep { sink: options.sink, tail })
}

fn fuse(loader: &mut Loader<'_, '_>, config: &DraftConfig, features: usize) -> Result<Weight, ModelError> {
    loader.weight(&[Wanted::new("fc", config.body.hidden, features)])
}

fn layers(
    loader: &mut Loader<'_, '_>,
    body: &Body,
    keep: Option<Keep>,
    positions: usize,
) -> Result<Vec<Layer>, ModelError> {
    let rope = Arc::new(Rope::new(body.kv.dim, body.rope.base, &body.rope.scaling, positions));
    let (attention, mlp, norms) = (attention(body), mlp(body), (body.hidden, body.eps, NormRule::Plain));
    let layer = |(i, kind): (usize, &LayerKind)| {
        let mask = Mask { causal: kind.causal, window: kind.window, keep };
        let prefix = format!("layers.{i}");
        let mixer = Attention::load_split(loader, &format!("{prefix}.self_attn"), &attention, &rope, mask)?;
        let ffn = Mlp::load(loader, &format!("{prefix}.mlp"), &mlp)?;
        Layer::load(loader, &prefix, norms, Mixer::Attention(mixer), FeedForward::Dense(ffn))
    };
    body.layers.iter().enumerate().map(layer).collect()
}

fn attention(body: &Body) -> AttentionShape {
    AttentionShape {
        hidden: body.hidden,
        heads: body.heads,
        kv: body.kv,
        scale: (body.kv.dim as f32).powf(-0.5),
        eps: body.eps,
        qkv_bias: body.attention_bias,
        output_bias: body.attention_bias,
        head_norms: Some(NormRule::Plain),
        output_gate: false,
        interleaved: false,
    }
}

fn mlp(body: &Body) -> MlpShape {
    MlpShape { hidden: body.hidden, ffn: body.ffn, activation: Activation::Silu, bias: BiasRule::Never }
}

fn spec(config: &DraftConfig, taps: Vec<usize>, keep: Option<Keep>, vocab: usize) -> DraftSpec {
    DraftSpec {
        block: config.block,
        mask_id: config.mask_id,
        taps,
        layers: config.body.layers.len(),
        vocab,
        keep,
        weight_bytes: 0,
        notes: Vec::new(),
    }
}
