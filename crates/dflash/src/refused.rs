//! Flags and variables that are known and not obeyed, each with its reason.
//!
//! A setting that would be carried along and read by nobody is worse than one that is refused.

use crate::cli::RefusedArgs;
use crate::env::Environment;
use crate::report::{Failure, Outcome};

const METAL_ONLY: &str = "it tunes the memory of the Metal backend, and this build has none";
const METAL_HINT: &str = "leave it out: buffers are sized once when the models load";

/// Refuses the flag and the variable that would change the target's text.
pub fn check_text(args: &RefusedArgs, env: &Environment) -> Outcome<()> {
    check_fa_window("--target-fa-window", args.target_fa_window.as_deref())?;
    check_fa_window("DFLASH_TARGET_FA_WINDOW", env.text("DFLASH_TARGET_FA_WINDOW")?)
}

/// Refuses the flags and variables of other backends.
pub fn check_memory(args: &RefusedArgs, env: &Environment) -> Outcome<()> {
    for (name, given) in [
        ("--wired-limit", limits(args.wired_limit.as_deref())),
        ("--cache-limit", limits(args.cache_limit.as_deref())),
        ("--clear-cache-boundaries", args.clear_cache_boundaries),
        ("--no-clear-cache-boundaries", args.no_clear_cache_boundaries),
        ("DFLASH_CLEAR_CACHE_BOUNDARIES", env.get("DFLASH_CLEAR_CACHE_BOUNDARIES").is_some()),
    ] {
        if given {
            return Err(refusal(name, METAL_ONLY).hint(METAL_HINT));
        }
    }
    Ok(())
}

/// `auto` and `none` leave memory to the backend, which is what is done anyway.
fn limits(value: Option<&str>) -> bool {
    value.is_some_and(|value| !["auto", "none"].iter().any(|word| value.eq_ignore_ascii_case(word)))
}

/// 0 means the full K/V cache, which is what is done anyway.
fn check_fa_window(name: &str, value: Option<&str>) -> Outcome<()> {
    match value {
        None | Some("0") => Ok(()),
        Some(_) => Err(refusal(
            name,
            "it cuts what the target attends to, so the text would no longer be the target's own",
        )
        .hint("leave it out; --draft-window-size bounds the draft's cache without changing the text")),
    }
}

fn refusal(name: &str, reason: &str) -> Failure {
    Failure::usage(format!("{name} is not supported")).cause(reason)
}
