use dflash_tensor::KvGeometry;

use super::config::Reach;
use crate::ModelError;
use crate::json::Keys;

/// Keys and values of every layer: those of the config, with `per_layer_config` on top where there is one, or
/// else `global_head_dim` and `num_global_key_value_heads` for full layers.
pub(super) fn geometries(text: &Keys<'_>, reaches: &[Reach]) -> Result<Vec<KvGeometry>, ModelError> {
    let heads = text.required_size("num_attention_heads")?;
    let all = KvGeometry {
        heads: text.required_size("num_key_value_heads")?,
        dim: text.required_size("head_dim")?,
    };
    let kv = match text.object("per_layer_config")? {
        Some(layers) => listed(text, &layers, reaches, all)?,
        None => by_reach(text, reaches, all)?,
    };
    if kv.iter().any(|kv| !heads.is_multiple_of(kv.heads)) {
        return Err(text.bad("num_attention_heads", "a multiple of the key/value heads of every layer"));
    }
    if kv.iter().any(|kv| !kv.dim.is_multiple_of(2)) {
        return Err(text.bad("head_dim", "an even number in every layer"));
    }
    Ok(kv)
}

/// The schema of the released files.
fn by_reach(text: &Keys<'_>, reaches: &[Reach], all: KvGeometry) -> Result<Vec<KvGeometry>, ModelError> {
    let of = |reach: &Reach| match reach {
        Reach::Sliding => Ok(all),
        Reach::Full => Ok(KvGeometry {
            heads: global_heads(text)?.unwrap_or(all.heads),
            dim: text.required_size("global_head_dim")?,
        }),
    };
    reaches.iter().map(of).collect()
}

/// Key/value heads of full layers, which may differ only where keys are the values.
fn global_heads(text: &Keys<'_>) -> Result<Option<usize>, ModelError> {
    match text.flag("attention_k_eq_v")? {
        Some(true) => text.size("num_global_key_value_heads"),
        _ => Ok(None),
    }
}

/// The schema that transformers writes since version 5.
fn listed(
    text: &Keys<'_>,
    layers: &Keys<'_>,
    reaches: &[Reach],
    all: KvGeometry,
) -> Result<Vec<KvGeometry>, ModelError> {
    let mut kv = vec![all; reaches.len()];
    for (name, _) in layers.entries() {
        let index = name.parse().ok().filter(|&index: &usize| index < kv.len());
        let index = index.ok_or_else(|| layers.refused(name, "keys are the numbers of layers"))?;
        let keys = layers.object(name)?.ok_or_else(|| layers.bad(name, "an object"))?;
        if let Some((key, _)) =
            keys.entries().find(|(key, _)| !["head_dim", "num_key_value_heads"].contains(&key.as_str()))
        {
            return Err(keys.refused(key, "head_dim and num_key_value_heads may differ between layers"));
        }
        kv[index].heads = keys.size("num_key_value_heads")?.unwrap_or(all.heads);
        kv[index].dim = keys.size("head_dim")?.unwrap_or(all.dim);
    }
    agree(text, reaches, &kv)?;
    Ok(kv)
}

/// Where both schemas are there, they say the same.
fn agree(text: &Keys<'_>, reaches: &[Reach], kv: &[KvGeometry]) -> Result<(), ModelError> {
    let full = || reaches.iter().zip(kv).filter(|(reach, _)| **reach == Reach::Full).map(|(_, kv)| kv);
    let same = |key: &str, own: &str, stated: Option<usize>, other: Option<usize>| match (stated, other) {
        (Some(stated), Some(other)) => Err(text.conflict(
            (text.name(key), stated.to_string()),
            (text.name("per_layer_config"), format!("a {own} of {other} in full layers")),
        )),
        _ => Ok(()),
    };
    let (dim, heads) = (text.size("global_head_dim")?, global_heads(text)?);
    same("global_head_dim", "head_dim", dim, full().map(|kv| kv.dim).find(|&found| Some(found) != dim))?;
    let other = full().map(|kv| kv.heads).find(|&found| Some(found) != heads);
    same("num_global_key_value_heads", "num_key_value_heads", heads, other)
}

/// The keys and values that all layers of a reach have; `None` without such layers.
pub(super) fn common(
    text: &Keys<'_>,
    reaches: &[Reach],
    kv: &[KvGeometry],
    reach: Reach,
) -> Result<Option<KvGeometry>, ModelError> {
    let mut of = reaches.iter().zip(kv).filter(|(other, _)| **other == reach).map(|(_, kv)| *kv);
    let first = of.next();
    match of.any(|kv| Some(kv) != first) {
        true => Err(text.refused("per_layer_config", "layers of one type have one shape")),
        false => Ok(first),
    }
}
