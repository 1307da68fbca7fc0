use dflash_tensor::RopeScaling;

use crate::ModelError;
use crate::json::Keys;

/// Base and scaling of a rotary embedding as a config states them.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// `rope_theta`.
    pub base: f32,
    /// Scaling of the frequencies.
    pub scaling: RopeScaling,
    /// The part of a head that turns, where the config says it.
    pub partial: Option<f32>,
}

/// What the caller's family supports and knows.
pub(crate) struct RopeRules<'a> {
    /// Scaling kinds with an implementation.
    pub(crate) kinds: &'a [&'a str],
    /// `rope_theta` where the config has none; `None` makes it a required key.
    pub(crate) base: Option<f32>,
    /// Positions of the config, which YaRN falls back to.
    pub(crate) context: usize,
    /// Layer types in use, for `rope_parameters` that are keyed by them.
    pub(crate) layer_types: &'a [&'a str],
    /// Whether only a part of a head may turn.
    pub(crate) partial: bool,
    /// Whether positions have several coordinates, which are equal for text.
    pub(crate) multimodal: bool,
}

impl RopeConfig {
    /// An embedding of the whole head.
    pub(crate) fn new(base: f32, scaling: RopeScaling) -> Self {
        Self { base, scaling, partial: None }
    }

    /// Reads the old schema (`rope_theta`, `rope_scaling`), the new one (`rope_parameters`), or both when
    /// they agree.
    ///
    /// # Errors
    /// Places that disagree, kinds or keys without implementation, missing or senseless numbers.
    pub(crate) fn read(config: &Keys<'_>, rules: &RopeRules<'_>) -> Result<Self, ModelError> {
        let new = config.object("rope_parameters")?.map(|keys| Self::parameters(&keys, rules)).transpose()?;
        let old_base = positive(config, "rope_theta")?;
        let old_scaling = config.object("rope_scaling")?;
        let old_scaling = old_scaling.map(|keys| scaling(&keys, rules)).transpose()?;
        let (new_base, new_scaling, new_partial) = new.unwrap_or_default();
        let base = agreed(config, "rope_theta", old_base, "rope_parameters.rope_theta", new_base)?;
        let scaling = agreed(config, "rope_scaling", old_scaling, "rope_parameters", new_scaling)?;
        let base = base.or(rules.base).ok_or_else(|| config.missing("rope_theta"))?;
        let key = "partial_rotary_factor";
        let old_partial = if rules.partial { positive(config, key)? } else { None };
        let partial = agreed(config, key, old_partial, "rope_parameters.partial_rotary_factor", new_partial)?;
        Ok(Self { base, scaling: scaling.unwrap_or(RopeScaling::Default), partial })
    }

    /// Leading dimensions of a head of `dim` that turn.
    ///
    /// # Errors
    /// When they are no even number up to the head's.
    pub(crate) fn rotary(&self, config: &Keys<'_>, dim: usize) -> Result<usize, ModelError> {
        let rotary = (dim as f32 * self.partial.unwrap_or(1.0)) as usize;
        match rotary.is_multiple_of(2) && (2..=dim).contains(&rotary) {
            true => Ok(rotary),
            false => Err(ModelError::BadValue {
                path: config.path().to_owned(),
                key: config.name("partial_rotary_factor"),
                found: self.partial.unwrap_or(1.0).to_string(),
                expected: format!("a part of the {dim} dimensions of a head that is an even number"),
            }),
        }
    }

    fn parameters(keys: &Keys<'_>, rules: &RopeRules<'_>) -> Result<Parameters, ModelError> {
        let nested = keys.entries().any(|(_, value)| value.is_object());
        if !nested {
            return Self::flat(keys, rules);
        }
        let mut found: Option<Parameters> = None;
        for kind in rules.layer_types {
            let entry = keys.object(kind)?.ok_or_else(|| keys.missing(kind))?;
            let these = Self::flat(&entry, rules)?;
            if found.as_ref().is_some_and(|others| *others != these) {
                return Err(keys.refused(kind, "all layers share one rotary embedding"));
            }
            found = Some(these);
        }
        match (found, keys.entries().next()) {
            (Some(found), _) => Ok(found),
            (None, Some((key, _))) => Err(keys.refused(key, "layers have one kind")),
            (None, None) => Ok(Parameters::default()),
        }
    }

    fn flat(keys: &Keys<'_>, rules: &RopeRules<'_>) -> Result<Parameters, ModelError> {
        let partial = if rules.partial { positive(keys, "partial_rotary_factor")? } else { None };
        Ok((positive(keys, "rope_theta")?, Some(scaling(keys, rules)?), partial))
    }
}

/// Base, scaling, part that turns.
type Parameters = (Option<f32>, Option<RopeScaling>, Option<f32>);

/// The value of two places that may both be empty but must not differ.
fn agreed<T: PartialEq + std::fmt::Debug>(
    config: &Keys<'_>,
    first: &str,
    a: Option<T>,
    second: &str,
    b: Option<T>,
) -> Result<Option<T>, ModelError> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => {
            let said = |key: &str, value: &T| (config.name(key), format!("{value:?}"));
            Err(config.conflict(said(first, &a), said(second, &b)))
        }
        (a, b) => Ok(a.or(b)),
    }
}

/// Keys of a scaling section that are read, or that say nothing of the mathematics.
const KNOWN: &[&str] = &[
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
    "finetuned",
];

/// How the coordinates of a position are spread over a head. Those of text are equal.
const MULTIMODAL: &[&str] = &["mrope_section", "mrope_interleaved"];

fn scaling(keys: &Keys<'_>, rules: &RopeRules<'_>) -> Result<RopeScaling, ModelError> {
    let known = |key: &str| KNOWN.contains(&key) || rules.multimodal && MULTIMODAL.contains(&key);
    if let Some((key, _)) = keys.entries().find(|(key, value)| !value.is_null() && !known(key)) {
        return Err(keys.refused(key, "this rotary setting is unknown"));
    }
    if !rules.partial && keys.number("partial_rotary_factor")?.is_some_and(|part| part != 1.0) {
        return Err(keys.refused("partial_rotary_factor", "the whole head is rotated"));
    }
    let kind = agreed(keys, "rope_type", keys.text("rope_type")?, "type", keys.text("type")?)?;
    let kind = kind.unwrap_or("default");
    if kind != "default" && !rules.kinds.contains(&kind) {
        let key = if keys.get("rope_type").is_some() { "rope_type" } else { "type" };
        return Err(keys.refused(key, "this scaling is not implemented for this model"));
    }
    match kind {
        "default" => Ok(RopeScaling::Default),
        "linear" => Ok(RopeScaling::Linear { factor: required(keys, "factor")? }),
        "llama3" => llama3(keys),
        _ => yarn(keys, rules.context),
    }
}

fn llama3(keys: &Keys<'_>) -> Result<RopeScaling, ModelError> {
    let (low, high) = (required(keys, "low_freq_factor")?, required(keys, "high_freq_factor")?);
    if high <= low {
        return Err(keys.bad("high_freq_factor", "more than low_freq_factor"));
    }
    Ok(RopeScaling::Llama3 {
        factor: required(keys, "factor")?,
        low_freq_factor: low,
        high_freq_factor: high,
        original_context: required(keys, "original_max_position_embeddings")?,
    })
}

fn yarn(keys: &Keys<'_>, context: usize) -> Result<RopeScaling, ModelError> {
    if keys.flag("truncate")? == Some(false) {
        return Err(keys.refused("truncate", "ramp ends are rounded to whole dimensions"));
    }
    let factor = required(keys, "factor")?;
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: positive(keys, "beta_fast")?.unwrap_or(32.0),
        beta_slow: positive(keys, "beta_slow")?.unwrap_or(1.0),
        original_context: positive(keys, "original_max_position_embeddings")?.unwrap_or(context as f32),
        attention_factor: attention_factor(keys, factor)?,
    })
}

fn attention_factor(keys: &Keys<'_>, factor: f32) -> Result<f32, ModelError> {
    if let Some(given) = positive(keys, "attention_factor")? {
        return Ok(given);
    }
    let grown = |mscale: f32| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let mscale = keys.number("mscale")?.filter(|&x| x != 0.0).unwrap_or(1.0);
    let all = keys.number("mscale_all_dim")?.unwrap_or(0.0);
    Ok(grown(mscale) / grown(all))
}

fn positive(keys: &Keys<'_>, key: &str) -> Result<Option<f32>, ModelError> {
    match keys.number(key)? {
        Some(value) if value <= 0.0 => Err(keys.bad(key, "a positive number")),
        value => Ok(value),
    }
}

fn required(keys: &Keys<'_>, key: &str) -> Result<f32, ModelError> {
    positive(keys, key)?.ok_or_else(|| keys.missing(key))
}
