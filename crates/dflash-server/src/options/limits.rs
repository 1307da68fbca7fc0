use crate::body::Fields;
use crate::{ApiError, App};

/// Answers to one prompt.
pub const MOST_ANSWERS: u64 = 16;

/// Ids per answer at most, from the first of `names` that is there, else the server's default. A limit beyond the
/// context of the model means all of it.
///
/// # Errors
/// A field that is no whole number from 1 on.
pub fn max_tokens(app: &App, fields: &Fields<'_>, names: &[&str]) -> Result<usize, ApiError> {
    let mut given = None;
    for name in names {
        let limit = fields.whole(name, 1..=u64::MAX)?;
        given = given.or(limit);
    }
    let limit = given.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(limit.unwrap_or(app.settings.max_tokens).min(app.model.facts.context.max(1)))
}

/// `n`
///
/// # Errors
/// No whole number, or more than wait and work at once.
pub fn answers(app: &App, fields: &Fields<'_>) -> Result<u32, ApiError> {
    let engine = app.model.engine.options();
    let most = MOST_ANSWERS.min((engine.max_batch + engine.waiting) as u64);
    Ok(fields.whole("n", 1..=most)?.unwrap_or(1) as u32)
}
