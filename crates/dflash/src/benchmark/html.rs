//! The report as one page.

use crate::report::Outcome;

/// A page.
pub fn page(summary: &serde_json::Value) -> Outcome<String> {
    Ok(format!("<!doctype html><pre>{summary:#}</pre>"))
}
