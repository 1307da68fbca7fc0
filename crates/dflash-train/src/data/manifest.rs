use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::shards;
use crate::TrainError;

/// What the answers of a folder were made of: `data.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The target, as its user calls it.
    pub model: String,
    /// Where the prompts came from.
    pub prompts: String,
    /// Most ids of an answer.
    pub max_tokens: usize,
    /// Seed of self-made prompts.
    pub seed: u64,
}

const NAME: &str = "data.json";

impl Manifest {
    /// Reads that of a folder; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, TrainError> {
        let path = folder.join(NAME);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(TrainError::io(&path))?;
        serde_json::from_str(&text).map(Some).map_err(|error| TrainError::bad(&path, error.to_string()))
    }

    /// Opens a folder for these answers: a new one, or one that was begun with the same wishes.
    ///
    /// # Errors
    /// A folder of other answers.
    pub(super) fn claim(&self, folder: &Path) -> Result<(), TrainError> {
        fs::create_dir_all(folder).map_err(TrainError::io(folder))?;
        match Self::read(folder)? {
            None if !shards(folder)?.is_empty() => Err(TrainError::bad(
                folder,
                format!("holds answers, but no {NAME} that says what of; choose another folder"),
            )),
            None => {
                let path = folder.join(NAME);
                let text = serde_json::to_string_pretty(self).expect("a manifest is JSON") + "\n";
                fs::write(&path, text).map_err(TrainError::io(&path))
            }
            Some(found) if found == *self => Ok(()),
            Some(found) => Err(TrainError::bad(
                folder,
                format!("holds answers made otherwise ({found}, not {self}); choose another folder"),
            )),
        }
    }
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { model, prompts, max_tokens, seed } = self;
        write!(f, "{model}, {prompts}, {max_tokens} tokens, seed {seed}")
    }
}
