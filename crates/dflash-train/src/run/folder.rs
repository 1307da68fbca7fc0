use std::fs;
use std::path::Path;

use super::RunSettings;
use crate::TrainError;

const SETTINGS: &str = "run.json";

/// Opens the folder of a run: a new one, or one that was begun with the same settings.
///
/// # Errors
/// A folder of another run, or of something else.
pub(super) fn claim(folder: &Path, settings: &RunSettings) -> Result<(), TrainError> {
    let path = folder.join(SETTINGS);
    fs::create_dir_all(folder).map_err(TrainError::io(folder))?;
    if path.exists() {
        let text = fs::read_to_string(&path).map_err(TrainError::io(&path))?;
        let found: RunSettings =
            serde_json::from_str(&text).map_err(|error| TrainError::bad(&path, error.to_string()))?;
        return if found == *settings { Ok(()) } else { Err(other(folder, &found, settings)) };
    }
    if fs::read_dir(folder).map_err(TrainError::io(folder))?.next().is_some() {
        return Err(TrainError::bad(folder, "is not empty and not the folder of a run; choose another one"));
    }
    let text = serde_json::to_string_pretty(settings).expect("settings are JSON") + "\n";
    fs::write(&path, text).map_err(TrainError::io(&path))
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
