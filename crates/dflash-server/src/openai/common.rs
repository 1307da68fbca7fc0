use super::models;
use crate::body::Fields;
use crate::options::Extension;
use crate::{ApiError, App};

/// How an answer is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// In chunks.
    pub stream: bool,
    /// With one more chunk that tells the usage.
    pub include_usage: bool,
    /// With what every cycle did.
    pub live: bool,
}

impl Delivery {
    /// `stream` and `stream_options`.
    ///
    /// # Errors
    /// Another type.
    pub fn read(fields: &Fields<'_>, extension: Extension) -> Result<Self, ApiError> {
        let options = fields.object("stream_options")?;
        let include_usage = options.map(|options| options.boolean("include_usage")).transpose()?.flatten();
        Ok(Self {
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: include_usage.unwrap_or(false),
            live: extension.live,
        })
    }
}

/// Checks `model`: absent means the served one.
///
/// # Errors
/// Another name than those of the served model.
pub fn check_model(app: &App, fields: &Fields<'_>) -> Result<(), ApiError> {
    match fields.string("model")? {
        None | Some("default_model") => Ok(()),
        Some(name) if app.model.answers_to(name) => Ok(()),
        Some(name) => Err(models::unknown(app, name)),
    }
}

/// Checks fields that have no effect here and still have a type, and the draft where one is named.
///
/// # Errors
/// Another type, another draft than the served one.
pub fn check_idle(app: &App, fields: &Fields<'_>) -> Result<(), ApiError> {
    for name in ["user", "service_tier", "safety_identifier", "prompt_cache_key"] {
        fields.string(name)?;
    }
    for name in ["metadata", "prediction"] {
        fields.object(name)?;
    }
    fields.boolean("store")?;
    fields.whole("num_draft_tokens", 0..=u64::MAX)?;
    fields.number("xtc_threshold", 0.0..=1.0)?;
    match fields.string("draft_model")? {
        None | Some("default_model") => Ok(()),
        Some(name) if name == app.model.facts.draft => Ok(()),
        Some(name) => {
            let why = format!("{name:?} is not the served draft, which is {:?}", app.model.facts.draft);
            Err(fields.refused("draft_model", why))
        }
    }
}
