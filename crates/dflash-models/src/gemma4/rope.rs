use dflash_tensor::RopeScaling;

use super::config::Reach;
use crate::ModelError;
use crate::json::Keys;
use crate::rope::RopeConfig;

/// The rotary embedding of the layers of one reach, `dim` wide. A config without `rope_parameters` means those
/// of the released models.
pub(super) fn read(text: &Keys<'_>, reach: Reach, dim: usize) -> Result<RopeConfig, ModelError> {
    let Some(all) = text.object("rope_parameters")? else { return Ok(released(reach, dim)) };
    let kind = match reach {
        Reach::Sliding => "sliding_attention",
        Reach::Full => "full_attention",
    };
    let keys = all.object(kind)?.ok_or_else(|| all.missing(kind))?;
    refuse_unknown(&keys)?;
    let scaling = match keys.text("rope_type")?.unwrap_or("default") {
        "default" => plain(&keys)?,
        "proportional" => RopeScaling::Proportional {
            rotated: rotated(part(&keys)?, dim),
            factor: positive(&keys, "factor")?.unwrap_or(1.0),
        },
        _ => return Err(keys.refused("rope_type", "default and proportional are")),
    };
    let base = positive(&keys, "rope_theta")?.ok_or_else(|| keys.missing("rope_theta"))?;
    Ok(RopeConfig::new(base, scaling))
}

fn released(reach: Reach, dim: usize) -> RopeConfig {
    match reach {
        Reach::Sliding => RopeConfig::new(1e4, RopeScaling::Default),
        Reach::Full => {
            let rotated = rotated(0.25, dim);
            RopeConfig::new(1e6, RopeScaling::Proportional { rotated, factor: 1.0 })
        }
    }
}

/// Pairs that turn.
fn rotated(part: f32, dim: usize) -> usize {
    (f64::from(part) * dim as f64 / 2.0) as usize
}

fn refuse_unknown(keys: &Keys<'_>) -> Result<(), ModelError> {
    let known = ["rope_type", "rope_theta", "partial_rotary_factor", "factor"];
    match keys.entries().find(|(key, value)| !value.is_null() && !known.contains(&key.as_str())) {
        Some((key, _)) => Err(keys.refused(key, "this rotary setting is unknown")),
        None => Ok(()),
    }
}

fn plain(keys: &Keys<'_>) -> Result<RopeScaling, ModelError> {
    for key in ["partial_rotary_factor", "factor"] {
        if keys.number(key)?.is_some_and(|value| value != 1.0) {
            return Err(keys.refused(key, "the whole head turns with the default rotary embedding"));
        }
    }
    Ok(RopeScaling::Default)
}

fn part(keys: &Keys<'_>) -> Result<f32, ModelError> {
    let key = "partial_rotary_factor";
    match keys.number(key)?.unwrap_or(1.0) {
        part if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err(keys.bad(key, "0 to 1")),
    }
}

fn positive(keys: &Keys<'_>, key: &str) -> Result<Option<f32>, ModelError> {
    match keys.number(key)? {
        Some(value) if value <= 0.0 => Err(keys.bad(key, "a positive number")),
        value => Ok(value),
    }
}
