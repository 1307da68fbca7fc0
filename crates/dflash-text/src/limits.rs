//! What a chat template may use up. Templates come with models from anywhere, and no template may hang the process
//! or end it; the limits lie far beyond what a real one needs.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Steps of one rendering; one also pays for 64 bytes, so this bounds the memory too.
pub(crate) const FUEL: u64 = 5_000_000;
/// Nested blocks and macro calls; a macro call counts for four.
pub(crate) const RECURSION: usize = 200;
/// Columns that `tojson` may indent by, per level.
pub(crate) const WIDEST_INDENT: usize = 64;
/// The filter that guards what is put into a namespace.
pub(crate) const KEEP: &str = "dflash_keep";
/// Levels of lists and mappings in one value.
const DEEPEST: usize = 200;
/// Steps that a value costs when it is written out, and the bytes of a string that cost one.
const STEPS_PER_VALUE: u64 = 4;
const BYTES_PER_STEP: usize = 16;

/// The error for a template that wants too much.
pub(crate) fn too_much(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// Pays for writing `value` out; an error when it is nested too deeply.
pub(crate) fn measure(state: &State, value: &Value) -> Result<(), Error> {
    walk(value, 0, &|value| {
        let bytes = value.as_str().map_or(0, str::len);
        state.consume_fuel(STEPS_PER_VALUE + (bytes / BYTES_PER_STEP) as u64)
    })
}

/// Passes on what a namespace may hold.
///
/// Namespaces are the only values that change, so with none inside another no value ever contains itself, and a
/// loop cannot nest values without end.
pub(crate) fn keep(state: &State, value: Value) -> Result<Value, Error> {
    walk(&value, 0, &|value| {
        state.consume_fuel(1)?;
        match value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace")) {
            true => Err(too_much("a namespace cannot be put into a namespace")),
            false => Ok(()),
        }
    })?;
    Ok(value)
}

/// Visits `value` and everything in it.
fn walk(value: &Value, depth: usize, visit: &impl Fn(&Value) -> Result<(), Error>) -> Result<(), Error> {
    visit(value)?;
    let is_map = match value.kind() {
        ValueKind::Map => true,
        ValueKind::Seq | ValueKind::Iterable => false,
        _ => return Ok(()),
    };
    if depth == DEEPEST {
        return Err(too_much("a value is nested too deeply"));
    }
    for item in value.try_iter()? {
        walk(&item, depth + 1, visit)?;
        if is_map {
            walk(&value.get_item(&item)?, depth + 1, visit)?;
        }
    }
    Ok(())
}
