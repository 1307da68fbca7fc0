use dflash_tensor::{Activation, Mask};

use super::DenseRules;
use crate::ModelError;
use crate::arch_keys::{ArchKeys, READ};
use crate::attention::AttentionShape;
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::gguf::Metadata;
use crate::gguf_experts;
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;

/// Reads GGUF metadata; `vocab` is the number of tokens, `factors` reads `rope_freqs` for a head width.
pub(crate) fn from_gguf(
    rules: &DenseRules,
    metadata: &Metadata,
    vocab: usize,
    factors: impl FnOnce(usize) -> Result<Option<Vec<f32>>, ModelError>,
    notes: &mut Vec<String>,
) -> Result<DecoderConfig, ModelError> {
    let keys = ArchKeys { arch: rules.arch, metadata };
    let read: &[&[&str]] = if rules.experts.is_some() { &[READ, gguf_experts::READ] } else { &[READ] };
    keys.refuse(read)?;
    notes.extend(keys.note_unread(read));
    let attention = attention(rules, &keys)?;
    let rotary = keys.rotary(attention.kv.dim)?;
    let ffn = ffn(rules, &keys, &attention)?;
    let layer = LayerPlan { mixer: MixerPlan::Attention(Mask::CAUSAL), ffn };
    Ok(DecoderConfig {
        family: rules.family,
        hidden: attention.hidden,
        eps: attention.eps,
        vocab,
        context: keys.size("context_length")?,
        rope: keys.rope(factors(rotary)?)?,
        rotary,
        attention,
        norms: NormRule::Plain,
        tied: None,
        layers: vec![layer; keys.blocks()?],
    })
}

fn attention(rules: &DenseRules, keys: &ArchKeys<'_>) -> Result<AttentionShape, ModelError> {
    Ok(AttentionShape {
        qkv_bias: if rules.qkv_bias { BiasRule::Always } else { BiasRule::IfPresent },
        head_norms: rules.head_norms.then_some(NormRule::Plain),
        interleaved: rules.gguf_interleaved,
        ..keys.attention()?
    })
}

fn ffn(rules: &DenseRules, keys: &ArchKeys<'_>, attention: &AttentionShape) -> Result<FfnPlan, ModelError> {
    if rules.experts.is_some() {
        return gguf_experts::read(keys, attention.hidden, true).map(FfnPlan::Sparse);
    }
    Ok(FfnPlan::Dense(MlpShape {
        hidden: attention.hidden,
        ffn: keys.size("feed_forward_length")?,
        activation: Activation::Silu,
        bias: BiasRule::IfPresent,
    }))
}
