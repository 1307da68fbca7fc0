use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dflash_engine::Snapshot;
use sha2::{Digest, Sha256};

use super::file::{self, Head};
use crate::obtain::hex;

const LOCK: &str = ".lock";
const EXTENSION: &str = "safetensors";
const PARTIAL: &str = "partial";
/// What `safetensors` writes to, beside the file.
const TEMPORARY: &str = ".tmp";

/// The states of one set of weights in a folder.
pub(super) struct Folder {
    path: PathBuf,
    /// Holds the right to write, where nobody else does.
    lock: Option<File>,
}

/// A state in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub path: PathBuf,
    pub head: Head,
    pub bytes: u64,
    pub used: SystemTime,
}

impl Folder {
    /// Opens the folder, made if need be; others may write there.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        let lock = File::create(path.join(LOCK)).ok().filter(|file| file.try_lock().is_ok());
        let folder = Self { path, lock };
        folder.sweep();
        Ok(folder)
    }

    /// Removes what a killed process left half-written. Only before anything is written here.
    fn sweep(&self) {
        for path in self.paths() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(TEMPORARY) || name.ends_with(PARTIAL) {
                self.remove(&path);
            }
        }
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// Lets another process write here: nothing is written any more.
    pub fn release(&self) {
        if let Some(lock) = &self.lock {
            // It is free at the latest when this process ends.
            let _ = lock.unlock();
        }
    }

    /// Whether states may be written and removed here.
    pub fn is_ours(&self) -> bool {
        self.lock.is_some()
    }

    /// When something last came or went.
    pub fn changed(&self) -> Option<SystemTime> {
        fs::metadata(&self.path).and_then(|facts| facts.modified()).ok()
    }

    /// All states that are here, of which those that are `known` are not read again. What is no state is removed.
    pub fn list(&self, known: Vec<Stored>) -> Vec<Stored> {
        let mut known: HashMap<PathBuf, Stored> =
            known.into_iter().map(|stored| (stored.path.clone(), stored)).collect();
        let mut stored = |path: PathBuf| known.remove(&path).or_else(|| self.look_at(path));
        self.paths().filter_map(&mut stored).collect()
    }

    fn look_at(&self, path: PathBuf) -> Option<Stored> {
        let facts = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        if path.extension()? != EXTENSION {
            return None;
        }
        let head = file::head(&path);
        if head.is_none() {
            self.remove(&path);
        }
        Some(Stored { head: head?, bytes: facts.len(), used: facts.modified().ok()?, path })
    }

    /// Writes a state, whole or not at all.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, snapshot: &Snapshot, draft: &str) -> io::Result<Stored> {
        let mut hash = Sha256::new();
        snapshot.ids().iter().for_each(|id| hash.update(id.to_le_bytes()));
        let name = format!("{:010}-{}", snapshot.len(), &hex(&hash.finalize())[..32]);
        let path = self.path.join(name).with_extension(EXTENSION);
        let partial = path.with_extension(PARTIAL);
        let written = file::write(&partial, snapshot, draft).and_then(|()| fs::rename(&partial, &path));
        if let Err(error) = written {
            // What is there of it takes room that may be lacking.
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
        let bytes = fs::metadata(&path)?.len();
        Ok(Stored { path, head: Head::of(snapshot, draft), bytes, used: SystemTime::now() })
    }

    /// Removes a file, if that is ours to do.
    pub fn remove(&self, path: &Path) {
        if self.is_ours() {
            // Whoever comes next tries again.
            let _ = fs::remove_file(path);
        }
    }

    /// Notes that a state was used.
    pub fn touch(&self, path: &Path) {
        if self.is_ours()
            && let Ok(file) = File::options().append(true).open(path)
        {
            // It grows old sooner, at worst.
            let _ = file.set_modified(SystemTime::now());
        }
    }
}
