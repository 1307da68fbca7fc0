//! What the reference's server knows and this one has no use for: accepted, since no answer depends on it, and told.

use super::ServeArgs;
use crate::env::Environment;
use crate::report::Outcome;
use crate::setting::{Names, boolean, bytes, whole_number};

/// A remark on everything that was given and has no effect.
///
/// # Errors
/// A value that the setting would not take.
pub fn remark(args: &ServeArgs, env: &Environment) -> Outcome<Option<String>> {
    let mut idle = switches(args);
    idle.extend(values(args, env)?);
    Ok(match idle.is_empty() {
        true => None,
        false => Some(format!(
            "warning: {} {} no effect yet: prompts are not cached, and memory is sized when the models load",
            idle.join(", "),
            if idle.len() == 1 { "has" } else { "have" },
        )),
    })
}

fn switches(args: &ServeArgs) -> Vec<&'static str> {
    let refused = &args.runtime.refused;
    let given = [
        ("--prefix-cache", args.idle.prefix_cache),
        ("--prefix-cache-l2", args.idle.prefix_cache_l2),
        ("--prefix-cache-l2-dir", args.idle.prefix_cache_l2_dir.is_some()),
        ("--clear-cache-boundaries", refused.clear_cache_boundaries),
        ("--no-clear-cache-boundaries", refused.no_clear_cache_boundaries),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
}

/// Those with a value; what means "as it is anyway" is not worth a word.
fn values(args: &ServeArgs, env: &Environment) -> Outcome<Vec<&'static str>> {
    type Check = fn(&str) -> Result<bool, String>;
    const COUNT: Check = |text| whole_number(0)(text).map(|count| count > 0);
    const SIZE: Check = |text| bytes(text).map(|size| size > 0);
    const LIMIT: Check = |text| match text.to_ascii_lowercase().as_str() {
        "auto" | "none" => Ok(false),
        other => bytes(other).map(|_| true).map_err(|takes| format!("auto, none or {takes}")),
    };
    const ANY: Check = |_| Ok(true);
    let (idle, refused) = (&args.idle, &args.runtime.refused);
    let rows = [
        (
            "--prefix-cache-max-entries",
            "DFLASH_PREFIX_CACHE_MAX_ENTRIES",
            &idle.prefix_cache_max_entries,
            COUNT,
        ),
        ("--prefix-cache-max-bytes", "DFLASH_PREFIX_CACHE_MAX_BYTES", &idle.prefix_cache_max_bytes, SIZE),
        (
            "--prefix-cache-l2-max-bytes",
            "DFLASH_PREFIX_CACHE_L2_MAX_BYTES",
            &idle.prefix_cache_l2_max_bytes,
            SIZE,
        ),
        ("--max-snapshot-tokens", "DFLASH_MAX_SNAPSHOT_TOKENS", &idle.max_snapshot_tokens, COUNT),
        ("--prompt-cache-size", "", &idle.prompt_cache_size, COUNT),
        ("--wired-limit", "", &refused.wired_limit, LIMIT),
        ("--cache-limit", "", &refused.cache_limit, LIMIT),
        ("DFLASH_PREFIX_CACHE", "DFLASH_PREFIX_CACHE", &None, boolean),
        ("DFLASH_PREFIX_CACHE_L2_ENABLED", "DFLASH_PREFIX_CACHE_L2_ENABLED", &None, boolean),
        ("DFLASH_PREFIX_CACHE_L2_DIR", "DFLASH_PREFIX_CACHE_L2_DIR", &None, ANY),
        ("DFLASH_CLEAR_CACHE_BOUNDARIES", "DFLASH_CLEAR_CACHE_BOUNDARIES", &None, boolean),
    ];
    let mut idle = Vec::new();
    for (flag, var, typed, check) in rows {
        let names = Names { flag, env: Some(var).filter(|var| !var.is_empty()) };
        if names.resolve(typed.as_deref(), env, false, check)?.value {
            idle.push(flag);
        }
    }
    Ok(idle)
}
