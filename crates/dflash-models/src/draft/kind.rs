use serde_json::Value;

use crate::ModelError;
use crate::json::Keys;

/// Architectures of the first generation, the ones that are read.
pub(super) const SUPPORTED: &[&str] = &["DFlashDraftModel", "DFlashSpeculator"];

/// The architecture of GGUF drafts that are read.
pub(super) const GGUF_ARCH: &str = "dflash";

/// What makes a config that of a draft, for people; `None` for a target's.
///
/// # Errors
/// [`ModelError::BadValue`].
pub(crate) fn kind_of(config: &Keys<'_>) -> Result<Option<String>, ModelError> {
    if let Some(name) = architectures(config).into_iter().find(|name| is_draft_architecture(name)) {
        return Ok(Some(format!("architecture {name}")));
    }
    if let Some(kind) = config.text("speculators_model_type")? {
        return Ok(Some(format!("speculators_model_type {kind}")));
    }
    Ok(config.get("dflash_config").map(|_| "it has a dflash_config".into()))
}

/// Names in `architectures`.
pub(super) fn architectures<'a>(config: &Keys<'a>) -> Vec<&'a str> {
    let list = config.get("architectures").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

fn is_draft_architecture(name: &str) -> bool {
    ["DFlash", "DSpark", "Eagle", "Medusa"].iter().any(|kind| name.starts_with(kind))
        || name.ends_with("Speculator")
        || name.ends_with("DraftModel")
}

/// Whether a GGUF architecture is that of a draft.
pub(crate) fn is_draft_arch(arch: &str) -> bool {
    arch.starts_with("dflash") || arch.starts_with("eagle")
}

/// Fails unless the architectures are those of the first generation.
///
/// # Errors
/// [`ModelError::Refused`] naming another draft, [`ModelError::NotADraft`] for anything else.
pub(super) fn require_supported(config: &Keys<'_>) -> Result<(), ModelError> {
    let names = architectures(config);
    if names.iter().any(|name| SUPPORTED.contains(name)) {
        return Ok(());
    }
    if names.iter().any(|name| is_draft_architecture(name)) {
        return Err(config.refused("architectures", "DFlashDraftModel and DFlashSpeculator are"));
    }
    match kind_of(config)? {
        Some(_) if names.is_empty() => Ok(()),
        _ => Err(not_a_draft(config, &names)),
    }
}

fn not_a_draft(config: &Keys<'_>, names: &[&str]) -> ModelError {
    let found = match names {
        [] => "its config names no draft architecture and has no dflash_config".into(),
        names => format!("its architecture is {}", names.join(", ")),
    };
    ModelError::NotADraft { path: config.path().to_owned(), found }
}
