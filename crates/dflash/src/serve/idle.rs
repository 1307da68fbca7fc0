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
    let idle = given(args, env)?;
    let verb = if idle.len() == 1 { "has" } else { "have" };
    let said = format!("warning: {} {verb} no effect: memory is sized when the models load", idle.join(", "));
    Ok((!idle.is_empty()).then_some(said))
}

/// What was given; what means "as it is anyway" is not worth a word.
fn given(args: &ServeArgs, env: &Environment) -> Outcome<Vec<&'static str>> {
    type Check = fn(&str) -> Result<bool, String>;
    const COUNT: Check = |text| whole_number(0)(text).map(|count| count > 0);
    const LIMIT: Check = |text| match text.to_ascii_lowercase().as_str() {
        "auto" | "none" => Ok(false),
        other => bytes(other).map(|_| true).map_err(|takes| format!("auto, none or {takes}")),
    };
    const CLEAR: Names = Names::new("DFLASH_CLEAR_CACHE_BOUNDARIES", "DFLASH_CLEAR_CACHE_BOUNDARIES");
    let refused = &args.runtime.refused;
    let rows = [
        (Names::flag("--prompt-cache-size"), &args.idle.prompt_cache_size, COUNT),
        (Names::flag("--wired-limit"), &refused.wired_limit, LIMIT),
        (Names::flag("--cache-limit"), &refused.cache_limit, LIMIT),
        (CLEAR, &None, boolean as Check),
    ];
    let mut idle = Vec::new();
    for (names, typed, check) in rows {
        if names.resolve(typed.as_deref(), env, false, check)?.value {
            idle.push(names.flag);
        }
    }
    let switches = [
        ("--clear-cache-boundaries", refused.clear_cache_boundaries),
        ("--no-clear-cache-boundaries", refused.no_clear_cache_boundaries),
    ];
    idle.extend(switches.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag));
    Ok(idle)
}
