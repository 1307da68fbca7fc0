//! A note beside a file that its bytes were checked, so that a start does not hash them again.
//!
//! It holds for one size and one time of change: a file that is touched is checked anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::WheelFile;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    sha256: String,
    size: u64,
    modified_ns: u64,
}

/// Whether the file at `path` was checked against `file` and has not changed since.
pub fn is_checked(path: &Path, file: &WheelFile) -> bool {
    let written =
        fs::read(marker_path(path)).ok().and_then(|bytes| serde_json::from_slice::<Marker>(&bytes).ok());
    written.is_some()
        && written == describe(path, file)
        && written.is_some_and(|marker| marker.size == file.size)
}

/// Notes that the file at `path` was checked against `file`.
pub fn write(path: &Path, file: &WheelFile) {
    let Some(marker) = describe(path, file) else { return };
    if let Ok(text) = serde_json::to_vec(&marker) {
        // Without the note the next start only hashes again. A half-written one does not parse.
        let _ = fs::write(marker_path(path), text);
    }
}

fn describe(path: &Path, file: &WheelFile) -> Option<Marker> {
    let meta = path.metadata().ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let modified_ns = u64::try_from(modified.as_nanos()).ok()?;
    Some(Marker { sha256: file.sha256.clone(), size: meta.len(), modified_ns })
}

fn marker_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.checked.json"))
}
