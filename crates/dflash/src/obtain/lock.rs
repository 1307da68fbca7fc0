//! One process at a time in one folder of the cache.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::ObtainError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// The system lets go of it when the process ends, however it ends: there are no stale locks.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

const POLL: Duration = Duration::from_millis(50);

impl Lock {
    /// Waits for the lock of `dir`.
    pub fn acquire(dir: &Path, progress: Progress, interrupt: &Interrupt) -> Result<Self, ObtainError> {
        let path = dir.join(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(ObtainError::io("open", &path))?;
        let mut said = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(ObtainError::io("lock", &path)(error)),
                Err(TryLockError::WouldBlock) if interrupt.is_asked() => {
                    return Err(ObtainError::Interrupted);
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if !std::mem::replace(&mut said, true) {
                progress.note("waiting for another dflash process that is obtaining the same files");
            }
            std::thread::sleep(POLL);
        }
    }
}
