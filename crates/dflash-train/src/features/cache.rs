use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::chunk::{Chunk, EXTENSION};
use crate::TrainError;

/// A folder of features that may vanish at any time.
#[derive(Debug, Clone)]
pub struct FeatureCache {
    folder: PathBuf,
    budget: Option<u64>,
}

/// A file in the folder.
struct Old {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

impl FeatureCache {
    /// A folder, made if need be, that may hold `budget` bytes; `None` for as many as the disk has.
    ///
    /// # Errors
    /// The system's.
    pub fn new(folder: &Path, budget: Option<u64>) -> Result<Self, TrainError> {
        fs::create_dir_all(folder).map_err(TrainError::io(folder))?;
        Ok(Self { folder: folder.to_owned(), budget })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes files of others than `chunks`, the oldest first, until `missing` more bytes are within the budget.
    ///
    /// # Errors
    /// Where `chunks` alone are more than it.
    pub(super) fn make_room(&self, chunks: &[Chunk], missing: u64) -> Result<(), TrainError> {
        let Some(budget) = self.budget else { return Ok(()) };
        let needed: u64 = chunks.iter().map(Chunk::bytes).sum();
        if needed > budget {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            let what = format!(
                "the features take {:.1} MB, and the cache may hold {:.1} MB; give it more, train on fewer sequences, or go \
                 without a cache",
                mb(needed),
                mb(budget)
            );
            return Err(TrainError::bad(&self.folder, what));
        }
        let own: HashSet<&Path> = chunks.iter().map(Chunk::path).collect();
        let mut others = self.others(&own);
        others.sort_by_key(|old| old.modified);
        let mut held = needed + others.iter().map(|old| old.bytes).sum::<u64>();
        for old in others.iter().filter(|_| missing > 0) {
            if held > budget && fs::remove_file(&old.path).is_ok() {
                held -= old.bytes;
            }
        }
        Ok(())
    }

    fn others(&self, own: &HashSet<&Path>) -> Vec<Old> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let old = |entry: fs::DirEntry| {
            let (path, data) = (entry.path(), entry.metadata().ok()?);
            let other = path.extension().is_some_and(|end| end == EXTENSION) && !own.contains(path.as_path());
            other.then_some(Old { bytes: data.len(), modified: data.modified().ok()?, path })
        };
        entries.filter_map(old).collect()
    }
}
