use dflash_tensor::{Activation, Mask};

use crate::ModelError;
use crate::arch_keys::{ArchKeys, READ};
use crate::attention::AttentionShape;
use crate::conv::{ConvShape, MAX_KERNEL};
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::gguf::Metadata;
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;

const CONV_ROWS: &str = "shortconv.l_cache";

/// Reads GGUF metadata; `vocab` is the number of tokens. Layers without key/value heads are convolutions.
pub(super) fn from_gguf(
    metadata: &Metadata,
    vocab: usize,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    let keys = ArchKeys { arch: "lfm2", metadata };
    let read = &[READ, &[CONV_ROWS]];
    keys.refuse(read)?;
    notes.extend(keys.note_unread(read));
    let attention = AttentionShape { head_norms: Some(NormRule::Plain), ..keys.attention()? };
    Ok(DecoderConfig {
        family: "lfm2",
        hidden: attention.hidden,
        eps: attention.eps,
        vocab,
        context: keys.size("context_length")?,
        rope: keys.rope(None)?,
        rotary: keys.rotary(attention.kv.dim)?,
        norms: NormRule::Plain,
        tied: None,
        layers: layers(&keys, attention.hidden)?,
        attention,
    })
}

fn layers(keys: &ArchKeys<'_>, hidden: usize) -> Result<Vec<LayerPlan>, ModelError> {
    let (ffn, bias) = (keys.size("feed_forward_length")?, BiasRule::Never);
    let mlp = MlpShape { hidden, ffn, activation: Activation::Silu, bias };
    let conv = ConvShape { hidden, kernel: kernel(keys)?, bias: BiasRule::IfPresent };
    let layer = |attends| LayerPlan {
        mixer: if attends { MixerPlan::Attention(Mask::CAUSAL) } else { MixerPlan::Conv(conv) },
        ffn: FfnPlan::Dense(mlp),
    };
    Ok(attends(keys)?.into_iter().map(layer).collect())
}

fn kernel(keys: &ArchKeys<'_>) -> Result<usize, ModelError> {
    let kernel = keys.size(CONV_ROWS)?;
    match (2..=MAX_KERNEL).contains(&kernel) {
        true => Ok(kernel),
        false => Err(keys.metadata.bad(&keys.key(CONV_ROWS), &format!("2 to {MAX_KERNEL}"))),
    }
}

fn attends(keys: &ArchKeys<'_>) -> Result<Vec<bool>, ModelError> {
    let (blocks, key) = (keys.blocks()?, keys.key("attention.head_count_kv"));
    match keys.metadata.integers(&key)? {
        Some(list) if list.len() == blocks => Ok(list.iter().map(|&heads| heads > 0).collect()),
        _ => Err(keys.metadata.bad(&key, &format!("a list of {blocks} numbers"))),
    }
}
