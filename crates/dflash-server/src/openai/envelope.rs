use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::App;

/// What every object of an answer has in common.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The same in every chunk of a stream.
    pub id: String,
    created: u64,
    model: String,
}

impl Envelope {
    /// A new one whose id begins with `prefix`.
    pub fn new(app: &App, prefix: &str) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        Self { id: format!("{prefix}-{}", Uuid::new_v4().simple()), created, model: app.model.id.clone() }
    }

    /// An object of this kind around `choices`.
    pub fn object(&self, kind: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": concat!("dflash-", env!("CARGO_PKG_VERSION")),
            "choices": choices,
        })
    }
}

/// An id for a tool call.
pub fn call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}
