use dflash_engine::Decoding;

use crate::body::Fields;
use crate::{ApiError, App};

const NAMES: [&str; 3] = ["speculative", "live", "prefix_cache"];

/// The field `dflash` of a request, in every family: `{"speculative": false, "live": true, "prefix_cache": false}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Whether to decode with the draft; the ids are the same.
    pub speculative: bool,
    /// Whether the chunks of a stream tell their cycles.
    pub live: bool,
    /// Whether it goes on from what is kept of other prompts, and is kept for others; the ids are the same.
    pub prefix_cache: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { speculative: true, live: false, prefix_cache: true }
    }
}

impl Extension {
    /// Reads it.
    ///
    /// # Errors
    /// Another type; a name that does not exist, since these are ours.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let Some(given) = fields.object("dflash")? else { return Ok(Self::default()) };
        if let Some(name) = given.names().find(|name| !NAMES.contains(name)) {
            return Err(given.refused(name, "dflash takes speculative, live and prefix_cache"));
        }
        Ok(Self {
            speculative: given.boolean("speculative")?.unwrap_or(true),
            live: given.boolean("live")?.unwrap_or(false),
            prefix_cache: given.boolean("prefix_cache")?.unwrap_or(true),
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
