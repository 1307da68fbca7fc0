//! One process at a time on one content, also where the other one is another tool: the lock files are the
//! ones that the Hub's own tools use.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::HubError;
use crate::progress::Progress;

/// The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock at `path`.
    pub(super) fn acquire(path: &Path, progress: Progress) -> Result<Self, HubError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(HubError::io("create", dir))?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(HubError::io("open", path))?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                progress.note("waiting for another process that is fetching the same file");
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        match locked {
            // Some network file systems have no locks: two processes then fetch the same thing twice.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                Err(HubError::io("lock", path)(error))
            }
            _ => Ok(Self { _file: file }),
        }
    }
}
