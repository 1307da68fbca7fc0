use dflash_tensor::{Activation, DeltaGeometry, KeyHeadMap, Mask};

use super::HybridRules;
use crate::ModelError;
use crate::arch_keys::{ArchKeys, READ};
use crate::attention::AttentionShape;
use crate::conv::MAX_KERNEL;
use crate::decoder::{DecoderConfig, FfnPlan, LayerPlan, MixerPlan};
use crate::delta::{DeltaProjections, DeltaShape};
use crate::gguf::Metadata;
use crate::gguf_experts;
use crate::loader::{BiasRule, NormRule};
use crate::mlp::MlpShape;

/// Keys of recurrent layers.
const OWN: &[&str] = &[
    "attention.recurrent_layers",
    "full_attention_interval",
    "nextn_predict_layers",
    "rope.dimension_sections",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
];

/// Reads GGUF metadata; `vocab` is the number of tokens. The converter has done what the norms and the decay
/// need. The second result is the number of layers that predict several tokens ahead, behind all others.
pub(super) fn from_gguf(
    rules: &HybridRules,
    metadata: &Metadata,
    vocab: usize,
    notes: &mut Vec<String>,
) -> Result<(DecoderConfig, usize), ModelError> {
    let keys = ArchKeys { arch: rules.arch, metadata };
    let read = &[READ, gguf_experts::READ, OWN];
    keys.refuse(read)?;
    notes.extend(keys.note_unread(read));
    let attention =
        AttentionShape { head_norms: Some(NormRule::Plain), output_gate: true, ..keys.attention()? };
    let (blocks, extra) = blocks(&keys)?;
    let config = DecoderConfig {
        family: rules.family,
        hidden: attention.hidden,
        eps: attention.eps,
        vocab,
        context: keys.size("context_length")?,
        rope: keys.rope(None)?,
        rotary: keys.rotary(attention.kv.dim)?,
        norms: NormRule::Plain,
        tied: None,
        layers: layers(rules, &keys, &attention, blocks)?,
        attention,
    };
    Ok((config, extra))
}

/// Layers, and how many more predict several tokens ahead.
fn blocks(keys: &ArchKeys<'_>) -> Result<(usize, usize), ModelError> {
    let (all, key) = (keys.blocks()?, keys.key("nextn_predict_layers"));
    let extra = keys.metadata.id(&key)?.unwrap_or(0) as usize;
    match all.checked_sub(extra) {
        Some(blocks) if blocks > 0 => Ok((blocks, extra)),
        _ => Err(keys.metadata.bad(&key, &format!("less than the {all} blocks"))),
    }
}

fn layers(
    rules: &HybridRules,
    keys: &ArchKeys<'_>,
    attention: &AttentionShape,
    blocks: usize,
) -> Result<Vec<LayerPlan>, ModelError> {
    let ffn = ffn(rules, keys, attention.hidden)?;
    let delta = delta(rules, keys, attention)?;
    let layer = |linear| LayerPlan {
        mixer: if linear { MixerPlan::Delta(delta) } else { MixerPlan::Attention(Mask::CAUSAL) },
        ffn: ffn.clone(),
    };
    Ok(linear_layers(keys, blocks)?.into_iter().map(layer).collect())
}

/// Per layer whether it is a recurrent one: by a list, else every `full_attention_interval`-th has attention.
fn linear_layers(keys: &ArchKeys<'_>, blocks: usize) -> Result<Vec<bool>, ModelError> {
    let key = keys.key("attention.recurrent_layers");
    if let Some(list) = keys.metadata.flags(&key)? {
        if list.len() < blocks {
            return Err(keys.metadata.bad(&key, &format!("at least {blocks} entries")));
        }
        return Ok(list[..blocks].to_vec());
    }
    let interval = keys.optional_size("full_attention_interval")?.unwrap_or(4);
    Ok((1..=blocks).map(|layer| layer % interval != 0).collect())
}

fn ffn(rules: &HybridRules, keys: &ArchKeys<'_>, hidden: usize) -> Result<FfnPlan, ModelError> {
    if rules.experts {
        return gguf_experts::read(keys, hidden, true).map(FfnPlan::Sparse);
    }
    let ffn = keys.size("feed_forward_length")?;
    let (activation, bias) = (Activation::Silu, BiasRule::Never);
    Ok(FfnPlan::Dense(MlpShape { hidden, ffn, activation, bias }))
}

fn delta(
    rules: &HybridRules,
    keys: &ArchKeys<'_>,
    attention: &AttentionShape,
) -> Result<DeltaShape, ModelError> {
    let value_heads = keys.size("ssm.time_step_rank")?;
    let (key_heads, inner) = (keys.size("ssm.group_count")?, keys.size("ssm.inner_size")?);
    let bad = |name: &str, expected: &str| Err(keys.metadata.bad(&keys.key(name), expected));
    if !value_heads.is_multiple_of(key_heads) {
        return bad("ssm.time_step_rank", "a multiple of ssm.group_count");
    }
    if !inner.is_multiple_of(value_heads) {
        return bad("ssm.inner_size", "a multiple of ssm.time_step_rank");
    }
    let kernel = keys.size("ssm.conv_kernel")?;
    if !(2..=MAX_KERNEL).contains(&kernel) {
        return bad("ssm.conv_kernel", &format!("2 to {MAX_KERNEL}"));
    }
    let key_dim = keys.size("ssm.state_size")?;
    Ok(DeltaShape {
        hidden: attention.hidden,
        geometry: DeltaGeometry { key_heads, value_heads, key_dim, value_dim: inner / value_heads },
        kernel,
        eps: attention.eps,
        projections: if rules.fused { DeltaProjections::FusedGates } else { DeltaProjections::Separate },
        key_heads: if rules.gguf_tiled { KeyHeadMap::Tiled } else { KeyHeadMap::Grouped },
        rate_baked: true,
    })
}
