use std::fs::{self, File, TryLockError};
use std::path::Path;

use crate::TrainError;

const NAME: &str = ".lock";

/// Keeps other processes from working in a folder, as long as it lives.
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the folder, which is made if need be.
    ///
    /// # Errors
    /// A folder that somebody else works in, or that cannot be written.
    pub(crate) fn take(folder: &Path) -> Result<Self, TrainError> {
        fs::create_dir_all(folder).map_err(TrainError::io(folder))?;
        let path = folder.join(NAME);
        let file = File::create(&path).map_err(TrainError::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(TrainError::bad(
                folder,
                "another process works there; wait for it, or choose another folder",
            )),
            Err(TryLockError::Error(error)) => Err(TrainError::io(&path)(error)),
        }
    }
}
