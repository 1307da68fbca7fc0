use dflash_tensor::Activation;

use crate::ModelError;
use crate::arch_keys::ArchKeys;
use crate::moe::MoeShape;

/// Keys of a mixture of experts that are read here, or that repeat what tensors say.
pub(crate) const READ: &[&str] = &[
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_shared_count",
    "expert_weights_norm",
    "expert_weights_scale",
    "expert_gating_func",
];

/// Reads the mixture of experts of an architecture; `renormalise` is its habit where the file does not say.
pub(crate) fn read(keys: &ArchKeys<'_>, hidden: usize, renormalise: bool) -> Result<MoeShape, ModelError> {
    refuse(keys)?;
    let (experts, top_k) = (keys.size("expert_count")?, keys.size("expert_used_count")?);
    if top_k > experts {
        let expected = format!("at most the {experts} experts");
        return Err(keys.metadata.bad(&keys.key("expert_used_count"), &expected));
    }
    let norm = keys.metadata.flag(&keys.key("expert_weights_norm"))?;
    Ok(MoeShape {
        hidden,
        experts,
        ffn: keys.size("expert_feed_forward_length")?,
        top_k,
        renormalise: norm.unwrap_or(renormalise),
        activation: Activation::Silu,
        shared: keys.optional_size("expert_shared_feed_forward_length")?,
    })
}

/// Scores go through a softmax (number 1), and their weights are taken as they are.
fn refuse(keys: &ArchKeys<'_>) -> Result<(), ModelError> {
    for (name, neutral) in [("expert_weights_scale", 1.0), ("expert_gating_func", 1.0)] {
        let key = keys.key(name);
        if keys.metadata.number(&key)?.is_some_and(|value| value != neutral && value != 0.0) {
            return Err(keys.metadata.refused(&key, ""));
        }
    }
    Ok(())
}
