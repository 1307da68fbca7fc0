use dflash_engine::Decoding;

use crate::body::Fields;
use crate::{ApiError, App};

/// The field `dflash` of a request, in every family: `{"speculative": false, "live": true}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Whether to decode with the draft; the ids are the same.
    pub speculative: bool,
    /// Whether the chunks of a stream tell their cycles.
    pub live: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { speculative: true, live: false }
    }
}

impl Extension {
    /// Reads it.
    ///
    /// # Errors
    /// Another type; a name that does not exist, since these are ours.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let Some(given) = fields.object("dflash")? else { return Ok(Self::default()) };
        if let Some(name) = given.names().find(|name| !["speculative", "live"].contains(name)) {
            return Err(given.refused(name, "dflash takes speculative and live"));
        }
        Ok(Self {
            speculative: given.boolean("speculative")?.unwrap_or(true),
            live: given.boolean("live")?.unwrap_or(false),
        })
    }

    /// How a request for `max_tokens` ids after a prompt of so many is decoded.
    pub fn decoding(self, app: &App, prompt: usize, max_tokens: usize) -> Decoding {
        let settings = &app.settings;
        let worth_it = max_tokens > settings.fastpath_max_tokens;
        let short = settings.speculative_prompt.is_none_or(|most| prompt <= most);
        match self.speculative && worth_it && short {
            true => Decoding::Speculative,
            false => Decoding::Plain,
        }
    }
}
