use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::EngineError;

/// Makes a panic an error: it costs what was in work, not the process.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        EngineError::Fault(text.unwrap_or_else(|| "unknown panic".to_owned()))
    })
}
