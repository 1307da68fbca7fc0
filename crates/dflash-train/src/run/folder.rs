use std::fs;
use std::path::Path;

use super::RunSettings;
use crate::TrainError;

const SETTINGS: &str = "run.json";

/// Whether a folder may become that of a run, or is that of one with the same settings.
///
/// # Errors
/// A folder of another run, or of something else.
pub(super) fn check(folder: &Path, settings: &RunSettings) -> Result<(), TrainError> {
    let path = folder.join(SETTINGS);
    if path.exists() {
        let text = fs::read_to_string(&path).map_err(TrainError::io(&path))?;
        let found: RunSettings = serde_json::from_str(&text)
            .map_err(|error| TrainError::bad(&path, format!("{error}; begin anew with another --out")))?;
        return if found == *settings { Ok(()) } else { Err(other(folder, &found, settings)) };
    }
    let entries = fs::read_dir(folder).map_err(TrainError::io(folder))?;
    // The lock is there already.
    match entries.flatten().find(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
        None => Ok(()),
        Some(_) => {
            Err(TrainError::bad(folder, "is not empty and not the folder of a run; choose another one"))
        }
    }
}

/// Makes it the folder of a run: by now all settings are known to be sound.
pub(super) fn claim(folder: &Path, settings: &RunSettings) -> Result<(), TrainError> {
    let (path, partial) = (folder.join(SETTINGS), folder.join("run.partial"));
    let text = serde_json::to_string_pretty(settings).expect("settings are JSON") + "\n";
    fs::write(&partial, text).map_err(TrainError::io(&partial))?;
    fs::rename(&partial, &path).map_err(TrainError::io(&path))
}

/// Names what differs.
fn other(folder: &Path, found: &RunSettings, wished: &RunSettings) -> TrainError {
    let fields = |settings| match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (found, wished) = (fields(found), fields(wished));
    let differing = found.iter().filter(|(name, value)| wished.get(*name) != Some(value));
    let list: Vec<_> = differing.map(|(name, value)| format!("{name} is {value} there")).collect();
    let what =
        format!("was begun with other settings ({}); give the same ones, or another --out", list.join(", "));
    TrainError::bad(folder, what)
}
