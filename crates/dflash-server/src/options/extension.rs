use dflash_engine::Decoding;

use crate::ApiError;
use crate::body::Fields;

/// The field `dflash` of a request, in every family: `{"speculative": false, "live": true}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Whether to decode with the draft; the ids are the same.
    pub speculative: bool,
    /// Whether the chunks of a stream tell their cycles.
    pub live: bool,
}

impl Extension {
    /// Reads it.
    ///
    /// # Errors
    /// Another type; a name that does not exist, since these are ours.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let Some(given) = fields.object("dflash")? else { return Ok(Self { speculative: true, live: false }) };
        if let Some(name) = given.names().find(|name| !["speculative", "live"].contains(name)) {
            return Err(given.refused(name, "dflash takes speculative and live"));
        }
        Ok(Self {
            speculative: given.boolean("speculative")?.unwrap_or(true),
            live: given.boolean("live")?.unwrap_or(false),
        })
    }

    /// How the engine decodes.
    pub fn decoding(self) -> Decoding {
        if self.speculative { Decoding::Speculative } else { Decoding::Plain }
    }
}
